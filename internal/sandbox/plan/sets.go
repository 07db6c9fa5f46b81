package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"forage"
	"forage/internal/deadline"
	"forage/internal/egress"
	"forage/internal/egressconfig"
	"forage/internal/hostset"
	"forage/internal/policy"
	"forage/internal/provider"
	"forage/internal/rootfs"
	"forage/internal/store"
)

// What is fetched from an index to find the hosts of its files.
const (
	maxFetched = 8 << 20
)

// findSets finds the hosts of the sets that network names and that are not known yet. Hostile are
// the folders that sandboxes write to: what is in them is not asked.
func (h *Host) findSets(ctx context.Context, network *forage.Network, hostile []string) ([]hostset.Set, error) {
	names := policy.UnknownSets(*network)
	found, errs := make([]hostset.Set, len(names)), make([]error, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() { found[i], errs[i] = h.findSet(ctx, name[1:], hostile) })
	}
	asked.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	network.Sets = maps.Clone(network.Sets)
	for i, name := range names {
		if network.Sets == nil {
			network.Sets = make(map[string][]string)
		}
		network.Sets[name] = found[i].Hosts
	}
	h.rememberSets(network.Sets)
	return found, nil
}

// findSet finds one set: as the configuration says, else as the caller's tools say.
func (h *Host) findSet(ctx context.Context, name string, hostile []string) (hostset.Set, error) {
	return hostset.Find(ctx, name, h.Config.HostSets, h.toolCaller(hostile))
}

// setHosts finds the hosts of one set.
func (h *Host) setHosts(ctx context.Context, hostile []string) func(string) ([]string, error) {
	return func(name string) ([]string, error) {
		set, err := h.findSet(ctx, name, hostile)
		if err == nil && len(set.Hosts) == 0 {
			err = forage.Errorf(forage.ErrUsage, "@%s has no hosts", name)
		}
		return set.Hosts, err
	}
}

// toolCaller is whose tools are asked: those of the caller that no sandbox can change.
func (h *Host) toolCaller(hostile []string) hostset.Caller {
	path, _ := h.Caller.Getenv("PATH")
	records, _ := h.Readable() // those that can't be read are said elsewhere
	for _, record := range records {
		for _, m := range record.Plan.Spec.Mounts {
			if m.Writable {
				hostile = append(slices.Clip(hostile), m.Source)
			}
		}
	}
	return hostset.Caller{
		Home: h.Caller.Home, Getenv: h.Caller.Getenv, Get: h.fetch, Path: filepath.SplitList(path),
		Trust: func(path string) bool {
			real, err := filepath.EvalSymlinks(path)
			return err == nil && filepath.IsAbs(path) && !slices.ContainsFunc(hostile, func(dir string) bool {
				return rootfs.Within(filepath.Clean(path), dir) || rootfs.Within(real, dir)
			})
		},
	}
}

// fetch gets a page for the host.
func (h *Host) fetch(ctx context.Context, address string) ([]byte, error) {
	client, err := egressconfig.HostClient(h.Config.Network)
	if err != nil {
		return nil, err
	}
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the index")
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("its address can't be read")
	}
	request.Header.Set("Accept", "text/html, application/json, */*;q=0.1")
	answer, err := client.Do(request)
	if err != nil {
		return nil, errors.Unwrap(err) // without the address, which may hold a password
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, maxFetched))
}

// setsFile is where the sets stand that were found last: to say of what is refused which set it
// belongs to. It allows nothing.
func (h *Host) setsFile() string { return filepath.Join(h.Places.State, "hostsets.json") }

func (h *Host) rememberSets(found map[string][]string) {
	if len(found) == 0 {
		return
	}
	known := h.knownSets()
	maps.Copy(known, found)
	if !maps.EqualFunc(known, h.knownSets(), slices.Equal) {
		_ = store.WriteWhole(h.setsFile(), known, false) // it is found again
	}
}

func (h *Host) knownSets() map[string][]string {
	known := make(map[string][]string)
	if store.ReadJSON(h.setsFile(), &known) != nil || known == nil {
		known = make(map[string][]string)
	}
	return known
}

// projectFiles are files of a project whose packages come from a registry, and its set.
var projectFiles = []struct{ file, set string }{
	{"package.json", "@npm"}, {"pyproject.toml", "@pypi"}, {"requirements.txt", "@pypi"}, {"go.mod", "@go"}, {"Cargo.toml", "@cargo"},
	{"pom.xml", "@maven"}, {"build.gradle", "@maven"}, {"build.gradle.kts", "@maven"}, {"Gemfile", "@rubygems"}, {"flake.nix", "@nix"},
}

// commandSets are commands that fetch packages, and the set that they need.
var commandSets = map[string]string{
	"npm": "@npm", "npx": "@npm", "pnpm": "@npm", "yarn": "@npm", "pip": "@pypi", "pip3": "@pypi", "uv": "@pypi", "uvx": "@pypi",
	"go": "@go", "cargo": "@cargo", "mvn": "@maven", "gradle": "@maven", "gem": "@rubygems", "bundle": "@rubygems", "nix": "@nix",
}

// proposedSets are the sets that the project's files speak for, and those files. They grant
// nothing.
func proposedSets(workspaces []forage.Workspace) (sets, files []string) {
	for _, w := range workspaces {
		for _, dir := range origins(w) {
			for _, known := range projectFiles {
				if _, err := os.Lstat(filepath.Join(dir, known.file)); err == nil && !slices.Contains(sets, known.set) {
					sets, files = append(sets, known.set), append(files, known.file)
				}
			}
		}
	}
	return sets, files
}

// propose says which sets the project seems to need and the network refuses. A run says at its end
// what was refused.
func (p *planner) propose(context.Context) error {
	network := p.plan.Network
	if p.opts.Ephemeral || network.Mode != forage.NetworkRestricted || network.Monitor {
		return nil
	}
	sets, files := proposedSets(p.plan.Workspaces())
	var missing, from []string
	for i, set := range sets {
		if !slices.Contains(network.Allow, set) {
			missing, from = append(missing, "--allow "+set), append(from, files[i])
		}
	}
	if len(missing) > 0 {
		p.note("packages of %s are not fetched from their registries without %s", strings.Join(from, ", "), strings.Join(missing, " "))
	}
	return nil
}

// hostileOf are the folders that a sandbox of that plan writes to.
func hostileOf(plan forage.Plan) (hostile []string) {
	for _, w := range plan.Workspaces() {
		hostile = append(append(hostile, w.Path), origins(w)...)
	}
	return hostile
}

// WithSets has the sets allow what belongs to one. The sets that the project's files or the command
// speak for are looked for once on this host, if there is something that could belong to them.
func (h *Host) WithSets(ctx context.Context, plan forage.Plan, all []egress.Refused) []egress.Refused {
	if len(all) == 0 {
		return nil
	}
	known := h.knownSets()
	proposed, _ := proposedSets(plan.Workspaces())
	if argv := plan.Spec.Command; len(argv) > 0 {
		if set, ok := commandSets[path.Base(argv[0])]; ok {
			proposed = append(proposed, set)
		}
	}
	for _, set := range proposed {
		if _, asked := known[set]; asked {
			continue
		}
		caller := h.toolCaller(hostileOf(plan))
		caller.Get = nil // the project's files are no reason to ask a server
		found, _ := hostset.Resolve(ctx, set[1:], caller)
		known[set] = append([]string{}, found.Hosts...) // none: it is not asked for again
		h.rememberSets(known)
	}
	for _, name := range provider.SetNames() {
		if hosts := provider.SetHosts(name); hosts != nil {
			known["@"+name] = hosts
		}
	}
	for name, hosts := range h.Config.HostSets {
		if !slices.Contains(hosts, "@"+name) {
			known["@"+name] = hosts
		}
	}
	var entries []setPolicy
	for _, name := range slices.Sorted(maps.Keys(known)) {
		network := forage.Network{Mode: forage.NetworkRestricted, Allow: []string{name}, Sets: known}
		if rules, err := policy.Compile(network); err == nil {
			entries = append(entries, setPolicy{name, rules})
		}
	}
	all = slices.Clone(all)
	for i, r := range all {
		asked := policy.Request{Host: r.Host, Port: cmp.Or(r.Port, 443)}
		for _, set := range entries {
			if r.Allow != "" && policy.Decide(set.rules, asked).Verdict == policy.Allow {
				all[i].Allow = set.name
				break
			}
		}
	}
	return all
}

// setPolicy is a policy that allows one set alone.
type setPolicy struct {
	name  string
	rules policy.Policy
}
