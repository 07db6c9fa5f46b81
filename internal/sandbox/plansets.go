package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"forage"
	"forage/internal/egressconfig"
	"forage/internal/hostset"
	"forage/internal/policy"
	"forage/internal/rootfs"
)

// What is fetched from an index to find the hosts of its files.
const (
	fetchTimeout = 10 * time.Second
	maxFetched   = 8 << 20
)

// findSets finds the hosts of the sets that network names and that are not known yet. Hostile are
// the folders that sandboxes write to: what is in them is not asked.
func (s *Service) findSets(ctx context.Context, network *forage.Network, hostile []string) ([]hostset.Set, error) {
	names := policy.UnknownSets(*network)
	found, errs := make([]hostset.Set, len(names)), make([]error, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() { found[i], errs[i] = s.findSet(ctx, name[1:], hostile) })
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
	s.rememberSets(network.Sets)
	return found, nil
}

// findSet finds one set: as the configuration says, else as the caller's tools say.
func (s *Service) findSet(ctx context.Context, name string, hostile []string) (hostset.Set, error) {
	return hostset.Find(ctx, name, s.Config.HostSets, s.toolCaller(hostile))
}

// setHosts finds the hosts of one set.
func (s *Service) setHosts(ctx context.Context, hostile []string) func(string) ([]string, error) {
	return func(name string) ([]string, error) {
		set, err := s.findSet(ctx, name, hostile)
		if err == nil && len(set.Hosts) == 0 {
			err = forage.Errorf(forage.ErrUsage, "@%s has no hosts", name)
		}
		return set.Hosts, err
	}
}

// toolCaller is whose tools are asked: those of the caller that no sandbox can change.
func (s *Service) toolCaller(hostile []string) hostset.Caller {
	path, _ := s.Caller.Getenv("PATH")
	records, _ := s.readable() // those that can't be read are said elsewhere
	for _, record := range records {
		for _, m := range record.Plan.Spec.Mounts {
			if m.Writable {
				hostile = append(slices.Clip(hostile), m.Source)
			}
		}
	}
	return hostset.Caller{
		Home: s.Caller.Home, Getenv: s.Caller.Getenv, Get: s.fetch, Path: filepath.SplitList(path),
		Trust: func(path string) bool {
			real, err := filepath.EvalSymlinks(path)
			return err == nil && filepath.IsAbs(path) && !slices.ContainsFunc(hostile, func(dir string) bool {
				return rootfs.Within(filepath.Clean(path), dir) || rootfs.Within(real, dir)
			})
		},
	}
}

// fetch gets a page for the host.
func (s *Service) fetch(ctx context.Context, address string) ([]byte, error) {
	client, err := egressconfig.HostClient(s.Config.Network)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
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
func (s *Service) setsFile() string { return filepath.Join(s.Places.State, "hostsets.json") }

func (s *Service) rememberSets(found map[string][]string) {
	if len(found) == 0 {
		return
	}
	known := s.knownSets()
	maps.Copy(known, found)
	if !maps.EqualFunc(known, s.knownSets(), slices.Equal) {
		_ = writeWhole(s.setsFile(), known, false) // it is found again
	}
}

func (s *Service) knownSets() map[string][]string {
	known := make(map[string][]string)
	if readJSON(s.setsFile(), &known) != nil || known == nil {
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

// findSets finds the hosts of the sets that are allowed, and has the tools inside use the same
// registries.
func (p *planner) findSets(ctx context.Context, network *forage.Network) error {
	found, err := p.service.findSets(ctx, network, hostileOf(p.plan))
	for _, set := range found {
		p.notes = append(p.notes, set.Notes...)
	}
	p.sets = found
	return err
}
