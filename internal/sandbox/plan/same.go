package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"forage"
	"forage/internal/rootfs"
)

// Same refuses to start a stopped sandbox with another plan than its own, and says what differs.
func Same(frozen, wanted forage.Plan) error {
	before, err := fields(frozen)
	if err != nil {
		return err
	}
	after, err := fields(wanted)
	if err != nil {
		return err
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	var differ []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		was, is := before[path], after[path]
		switch { // these follow the files that are there, and what the tools say now
		case was == is, path == "network.sets" && is != "", path == "spec.protect" && was != "" && is != "":
			continue
		case was == "":
			was = "nothing"
		case is == "":
			is = "nothing"
		}
		differ = append(differ, fmt.Sprintf("%s is %s, asked for %s", path, was, is))
	}
	if len(differ) == 0 {
		return nil
	}
	return differs(frozen.Name, strings.Join(differ, "; "))
}

func differs(name, how string) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "sandbox %q is there already, and differs: %s", name, how),
		"choose another name; or `forage-ctl start "+name+"` goes on with it as it is, and `forage-ctl down "+name+"` removes it")
}

// fields are the parts of a plan, two levels deep, as JSON: without what it shows of the host's
// system, and of the caller's tools and caches. These change with every installation and every
// shell; a sandbox goes on with those that it was made with.
func fields(plan forage.Plan) (map[string]string, error) {
	spec := &plan.Spec
	spec.Mounts = slices.DeleteFunc(slices.Clone(spec.Mounts), func(m forage.Mount) bool { return m.System || m.Layered })
	spec.Links, spec.Env = nil, maps.Clone(spec.Env)
	for _, name := range append(rootfs.ToolVariables(), "PATH") {
		delete(spec.Env, name)
	}
	var top map[string]json.RawMessage
	text, err := json.Marshal(plan)
	if err == nil {
		err = json.Unmarshal(text, &top)
	}
	all := make(map[string]string)
	for name, value := range top {
		var inner map[string]json.RawMessage
		if json.Unmarshal(value, &inner) != nil {
			all[name] = string(value)
		}
		for key, value := range inner {
			all[name+"."+key] = string(value)
		}
	}
	return all, err
}
