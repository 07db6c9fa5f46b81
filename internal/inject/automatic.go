package inject

import (
	"os"
	"path/filepath"

	"forage/internal/config"
	"forage/internal/provider"
)

// Automatic is the secret of that name for a caller who has configured none: the
// service's variable in the caller's environment, else the login of the service's
// agent. Its value is not read. False says that the caller has neither.
func Automatic(name, home string, getenv func(string) (string, bool)) (config.Secret, bool) {
	service, ok := provider.Lookup(name)
	if !ok {
		return config.Secret{}, false
	}
	for _, variable := range service.Env {
		if value, _ := getenv(variable); value != "" {
			return config.Secret{Env: variable, Preset: name}, true
		}
	}
	if service.Login == "" || home == "" {
		return config.Secret{}, false
	}
	file := filepath.Join(home, service.LoginFile)
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return config.Secret{}, false
	}
	return config.Secret{Login: service.Login, LoginFile: file, Preset: name}, true
}
