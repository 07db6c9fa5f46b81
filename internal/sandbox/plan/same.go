package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"forage"
	"forage/internal/rootfs"
)

// Same refuses to start a stopped sandbox with another plan than its own,
// and says what differs.
func Same(frozen, wanted forage.Plan) error {
	frozen, wanted = withoutTools(frozen), withoutTools(wanted)
	before, err := fields(frozen)
	if err != nil {
		return err
	}
	after, err := fields(wanted)
	if err != nil {
		return err
	}
	var differ []string
	for path, value := range after {
		// These follow the files that are there, and what the tools say now.
		if path == "network.sets" || path == "spec.protect" && before[path] != nil {
			delete(before, path)
			continue
		}
		if !bytes.Equal(before[path], value) {
			differ = append(differ, fmt.Sprintf("%s is %s, asked for %s", path, orNothing(before[path]), value))
		}
		delete(before, path)
	}
	for path, value := range before {
		differ = append(differ, fmt.Sprintf("%s is %s, asked for nothing", path, value))
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return differs(frozen.Name, strings.Join(differ, "; "))
}

// withoutTools is a plan without what it shows of the host's system, and of the caller's tools and
// caches. These change with every installation and every shell; a sandbox goes on with those that
// it was made with.
func withoutTools(plan forage.Plan) forage.Plan {
	spec := &plan.Spec
	spec.Mounts = slices.DeleteFunc(slices.Clone(spec.Mounts), func(m forage.Mount) bool { return m.System || m.Layered })
	spec.Links, spec.Env = nil, maps.Clone(spec.Env)
	for _, name := range append(rootfs.ToolVariables(), "PATH") {
		delete(spec.Env, name)
	}
	return plan
}

func differs(name, how string) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "sandbox %q is there already, and differs: %s", name, how),
		"choose another name; or `forage-ctl start "+name+"` goes on with it as it is, and `forage-ctl down "+name+"` removes it")
}

func orNothing(value []byte) string {
	if value == nil {
		return "nothing"
	}
	return string(value)
}

// fields are the parts of a plan, two levels deep, as JSON.
func fields(plan forage.Plan) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(text, &top); err != nil {
		return nil, err
	}
	all := make(map[string]json.RawMessage)
	for name, value := range top {
		var inner map[string]json.RawMessage
		if json.Unmarshal(value, &inner) != nil {
			all[name] = value
			continue
		}
		for key, value := range inner {
			all[name+"."+key] = value
		}
	}
	return all, nil
}
