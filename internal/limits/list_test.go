package limits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"forage"
)

// list finds our groups on this host, as sandbox name to Ref. Places that can't be read are
// reported beside what was found.
func list() (map[string]string, error) {
	env := Host()
	found := map[string]string{}
	err := listFolders(env, found)
	return found, errors.Join(err, listScopes(env, found))
}

// listFolders finds our groups' folders where this host's enforcers would make them.
func listFolders(env Environment, found map[string]string) error {
	hierarchies, err := env.hierarchies()
	if err != nil {
		return fmt.Errorf("listing control groups: %w", err)
	}
	paths := map[string][]string{}
	for _, h := range hierarchies {
		if !h.unified && len(h.controllers) == 0 {
			continue
		}
		for _, dir := range ancestors(h.own, h.mount) {
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue // not ours to see, so not ours
			}
			for _, e := range entries {
				name, ours := strings.CutPrefix(e.Name(), prefix)
				if path := filepath.Join(dir, e.Name()); ours && e.IsDir() && forage.CheckName(name) == nil && env.Writable(path) {
					paths[name] = append(paths[name], path)
				}
			}
		}
	}
	for name, list := range paths {
		found[name] = (&folders{paths: list}).Ref()
	}
	return nil
}

// listScopes finds our scopes, where systemd is the init.
func listScopes(env Environment, found map[string]string) error {
	d := detection{env: env}
	if !d.booted() {
		return nil
	}
	m, err := env.Manager(managerSocket(env))
	if err != nil {
		return nil // no manager, no scopes
	}
	defer m.Close()
	units, err := m.(*busManager).scopes(prefix + "*" + scopeSuffix)
	if err != nil {
		return fmt.Errorf("asking systemd for scopes: %w", err)
	}
	for _, unit := range units {
		name := strings.TrimSuffix(strings.TrimPrefix(unit, prefix), scopeSuffix)
		if forage.CheckName(name) == nil {
			found[name] = refSystemd + unit
		}
	}
	return nil
}

// scopes names the units that match a pattern.
func (m *busManager) scopes(pattern string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), managerTimeout)
	defer cancel()
	var units [][]any // a(ssssssouso), of which the first is the name
	if err := m.call(ctx, "ListUnitsByPatterns", []any{&units}, []string{}, []string{pattern}); err != nil {
		return nil, err
	}
	var names []string
	for _, u := range units {
		if name, ok := u[0].(string); ok {
			names = append(names, name)
		}
	}
	return names, nil
}
