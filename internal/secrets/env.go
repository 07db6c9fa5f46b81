package secrets

import (
	"context"
	"fmt"
	"sort"

	"forage"
)

// variable is a value of the caller's environment.
type variable struct{ name, value string }

func (v variable) Get(context.Context) (Secret, error) {
	if v.value == "" {
		return Secret{}, forage.WithHint(fmt.Errorf("the variable %s was not set when the sandbox was started", v.name),
			"set it, and stop and start the sandbox")
	}
	value, err := clean([]byte(v.value))
	if err != nil {
		return Secret{}, fmt.Errorf("the variable %s: %w", v.name, err)
	}
	return value, nil
}

// surroundings are the variables that commands which know secrets, and the keyring,
// need of the caller's environment to find their files, agents and buses. PATH is not
// among them: it is the system's.
var surroundings = []string{
	"HOME", "USER", "LOGNAME", "LANG", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK",
	"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_SESSION_TYPE",
	"GNUPGHOME", "PASSWORD_STORE_DIR", "GOPASS_HOMEDIR", "GH_CONFIG_DIR", "GLAB_CONFIG_DIR", "BW_SESSION", "OP_ACCOUNT",
	"AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "CLOUDSDK_CONFIG", "VAULT_ADDR", "SOPS_AGE_KEY_FILE",
}

// Wanted are the names of the variables that Open needs of the caller's environment.
func Wanted(src forage.SecretSource) []string {
	switch {
	case src.Env != "":
		return []string{src.Env}
	case len(src.Command) > 0:
		return append([]string(nil), surroundings...)
	case src.Keyring != "":
		return []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"}
	}
	return nil
}

// environOf is the part of env that commands get.
func environOf(env map[string]string) []string {
	var list []string
	for _, name := range surroundings {
		if value, ok := env[name]; ok {
			list = append(list, name+"="+value)
		}
	}
	sort.Strings(list)
	return list
}
