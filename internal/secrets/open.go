package secrets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"forage"
)

// memory is how long a value is kept that costs something to read.
const memory = 60 * time.Second

// Open is the source that src names. env is the environment of the caller, as it was when
// the sandbox was started: what Wanted names of it. life is its owner's: what is being read when it
// ends is ended too. Logins are opened elsewhere.
func Open(life context.Context, src forage.SecretSource, env map[string]string) (Source, error) {
	switch {
	case src.File != "":
		return file{src.File}, nil
	case src.Env != "":
		return variable{src.Env, env[src.Env]}, nil
	case len(src.Command) > 0:
		return &cached{life: life, read: command{src.Command, environOf(env)}.read, now: time.Now}, nil
	case src.Keyring != "":
		// Reads "service/user"; the service may have slashes in it.
		at := strings.LastIndexByte(src.Keyring, '/')
		if at <= 0 || at == len(src.Keyring)-1 {
			return nil, fmt.Errorf("keyring %q: expected service/user", src.Keyring)
		}
		item := item{service: src.Keyring[:at], user: src.Keyring[at+1:]}
		item.env = env
		return &cached{life: life, read: item.read, now: time.Now}, nil
	case src.Login != nil:
		return nil, fmt.Errorf("the login %s is not a value that is read", src.Login.Kind)
	}
	return nil, errors.New("the secret has no source")
}
