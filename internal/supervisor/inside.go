package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"forage"
	"forage/internal/inject"
	"forage/internal/secrets"
	"forage/internal/secrets/login"
)

// addFiles adds to what the sandbox will find inside. The frozen plan stays as it is.
func (s *Sandbox) addFiles(files ...forage.File) {
	spec := &s.setup.Plan.Spec
	spec.Files = append(slices.Clip(spec.Files), files...)
}

// wrapSecrets puts the values of the secrets into the sandbox, for its wrappers.
func (s *Sandbox) wrapSecrets(ctx context.Context, sources map[string]secrets.Source) error {
	for _, b := range s.setup.Plan.Secrets {
		value, err := sources[b.Secret].Get(ctx)
		if err != nil {
			return forage.WithHint(forage.Errorf(forage.ErrStart, "the secret %s: %w", b.Secret, err), forage.Hint(err))
		}
		s.addFiles(forage.File{Path: inject.SecretPath(b.Secret), Content: []byte(value.Reveal()), Mode: 0o400})
	}
	return nil
}

// placeLogins puts agents' login files into the home, with placeholders for the tokens.
func (s *Sandbox) placeLogins() error {
	home := s.setup.Plan.Spec.Identity.Home
	for _, b := range s.setup.Plan.Secrets {
		if b.Source.Login == nil {
			continue
		}
		files, err := loginFiles(*b.Source.Login, b.Placeholder, b.Refresh)
		if err != nil {
			return forage.WithHint(fmt.Errorf("the secret %s: %w", b.Secret, err), forage.Hint(err))
		}
		for _, file := range files {
			at := path.Join(home, file.Path)
			if slices.ContainsFunc(s.setup.Plan.Spec.Files, func(f forage.File) bool { return f.Path == at }) {
				continue // the agent's settings, which say more
			}
			s.addFiles(forage.File{Path: at, Content: file.Content, Mode: 0o600, Owned: true, Renew: file.Renew})
		}
	}
	return nil
}

// CheckLogin says whether there is a login that a sandbox can be given the placeholders of.
func CheckLogin(l forage.Login) error {
	_, err := loginFiles(l, "access", "refresh")
	return err
}

// loginFiles are an agent's login files as they are inside.
func loginFiles(l forage.Login, access, refresh string) ([]login.File, error) {
	const hint = "log in on the host with the agent itself, or say where its login is with loginFile"
	text, err := login.Read(l.File)
	if errors.Is(err, os.ErrNotExist) {
		return nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "there is no login at %s", l.File), hint)
	}
	if err != nil {
		return nil, forage.Errorf(forage.ErrUsage, "the login in %s: %w", l.File, err)
	}
	files, err := login.Inside(l.Kind, text, access, refresh)
	if err != nil {
		return nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "%s: %w", l.File, err), hint)
	}
	return files, nil
}
