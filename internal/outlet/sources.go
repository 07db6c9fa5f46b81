package outlet

import (
	"fmt"
	"net/http"
	"time"

	"forage"
	"forage/internal/secrets"
	"forage/internal/secrets/login"
)

// Sources are the sources of bindings, by their secrets' names. env is what secrets.Wanted names
// of the caller's environment; transport is how the host renews logins (Engine.HostTransport). Nothing is read yet.
func Sources(bindings []forage.Binding, env map[string]string, transport func() http.RoundTripper) (map[string]secrets.Source, error) {
	sources := make(map[string]secrets.Source, len(bindings))
	for _, b := range bindings {
		source, err := open(b.Source, env, transport)
		if err != nil {
			return nil, fmt.Errorf("the secret %s: %w", b.Secret, err)
		}
		sources[b.Secret] = source
	}
	return sources, nil
}

func open(source forage.SecretSource, env map[string]string, transport func() http.RoundTripper) (secrets.Source, error) {
	if source.Login != nil {
		return login.Open(*source.Login, transport, time.Now)
	}
	return secrets.Open(source, env)
}
