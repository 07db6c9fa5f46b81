// Package devcontainer reads a project's devcontainer.json (containers.dev, "Dev Container metadata
// reference") as far as a sandbox can be what it says. The file is the project's, and an agent may
// have written it: nothing of the host is read for it, and what it asks for beyond an image, a
// build, commands inside and variables is left out and named.
package devcontainer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/jsonc"
	"golang.org/x/sys/unix"

	"forage"
)

// Container is what a project's file asks for and a sandbox can give.
type Container struct {
	Image   string // a reference; "" where there is a build
	Build   *Build
	Env     map[string]string
	Init    []string // shell command lines to run inside before the agent
	Ports   []int    // that servers inside listen on
	Volumes []Volume
	Notes   []string // what was left out, and why
}

// Volume is a named volume, of this project alone.
type Volume struct{ Name, Target string }

// Build is how an image is made. Paths are relative to the project's folder.
type Build struct {
	Dockerfile, Context string
	Target              string
	Args                map[string]string
}

// places are where the file may be, the first that is there counts.
var places = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

// understood are the keys that are heeded. harmless are those that say nothing to a sandbox.
var (
	understood = []string{
		"image", "build", "dockerFile", "context", "containerEnv", "remoteEnv", "onCreateCommand", "updateContentCommand",
		"postCreateCommand", "postStartCommand", "forwardPorts", "mounts",
	}
	harmless = []string{"$schema", "name", "customizations", "portsAttributes", "otherPortsAttributes", "hostRequirements", "waitFor"}
)

// file is what is read of it. Commands are text, a list of words, or a table of either.
type file struct {
	Image      string
	DockerFile string
	Context    string
	Build      *struct {
		Dockerfile, Context, Target string
		Args                        map[string]string
	}
	ContainerEnv         map[string]string
	RemoteEnv            map[string]*string
	OnCreateCommand      json.RawMessage
	UpdateContentCommand json.RawMessage
	PostCreateCommand    json.RawMessage
	PostStartCommand     json.RawMessage
	ForwardPorts         []json.RawMessage
	Mounts               []json.RawMessage
}

// Read reads the file of the project in a folder.
func Read(folder string) (Container, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return Container{}, err
	}
	defer root.Close()
	for _, place := range places {
		f, err := root.OpenFile(place, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO is not waited for
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Container{}, forage.Errorf(forage.ErrUsage, "reading %s: %w", place, err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is no file")
		}
		var text []byte
		if err == nil {
			text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
		}
		if err == nil && len(text) > maxFile {
			err = fmt.Errorf("larger than %d bytes", maxFile)
		}
		if err != nil {
			return Container{}, forage.Errorf(forage.ErrUsage, "reading %s: %w", place, err)
		}
		c, err := parse(text, path.Dir(place))
		if err != nil {
			return Container{}, forage.Errorf(forage.ErrUsage, "%s: %w", place, err)
		}
		return c, nil
	}
	return Container{}, forage.WithHint(forage.Errorf(forage.ErrUsage, "--devcontainer: there is no %s in %s", places[0], folder), "use --image or a template's rootfs")
}

// parse reads the text of a file that is in the folder dir of the project.
func parse(text []byte, dir string) (c Container, err error) {
	text = jsonc.ToJSON(text)
	var keys map[string]json.RawMessage
	var f file
	if err := errors.Join(json.Unmarshal(text, &keys), json.Unmarshal(text, &f)); err != nil {
		return c, err
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(understood, key) && !slices.Contains(harmless, key) {
			c.leave("%s: a sandbox can't do what it asks for", key)
		}
	}
	c.Image = f.Image
	if f.DockerFile != "" && f.Build == nil {
		c.Build = &Build{Dockerfile: f.DockerFile, Context: f.Context}
	}
	if b := f.Build; b != nil {
		c.Build = &Build{b.Dockerfile, b.Context, b.Target, b.Args}
	}
	if c.Build != nil {
		for _, p := range []*string{&c.Build.Dockerfile, &c.Build.Context} {
			if *p = path.Join(dir, *p); !fs.ValidPath(*p) {
				return c, fmt.Errorf("build: %s is outside the project", *p)
			}
		}
	}
	if (c.Image == "") == (c.Build == nil) {
		return c, errors.New("expected an image or a build")
	}
	c.environment(f)
	for _, one := range []struct {
		key     string
		command json.RawMessage
	}{
		{"onCreateCommand", f.OnCreateCommand}, {"updateContentCommand", f.UpdateContentCommand},
		{"postCreateCommand", f.PostCreateCommand}, {"postStartCommand", f.PostStartCommand},
	} {
		lines, err := commandLines(one.command)
		if err != nil {
			return c, fmt.Errorf("%s: %w", one.key, err)
		}
		c.Init = append(c.Init, lines...)
	}
	for _, port := range f.ForwardPorts {
		n, err := strconv.Atoi(strings.Trim(string(port), `"`))
		if err != nil || n < 1 || n > 65535 {
			c.leave("forwardPorts: %s is no port of the sandbox", port)
			continue
		}
		c.Ports = append(c.Ports, n)
	}
	c.mounts(f.Mounts)
	return c, nil
}

func (c *Container) leave(format string, args ...any) {
	c.Notes = append(c.Notes, "devcontainer.json: left out "+fmt.Sprintf(format, args...))
}

// environment takes the variables. What asks for one of the host's is left out: it may be a secret.
func (c *Container) environment(f file) {
	c.Env = map[string]string{}
	set := func(key, value string) {
		if key == "PATH" { // in which Forage's own programs come first
			c.leave("the variable PATH")
			return
		}
		value = expand(value)
		if strings.Contains(value, "${") {
			c.leave("the variable %s, which is made from others", key)
			return
		}
		c.Env[key] = value
	}
	for _, key := range slices.Sorted(maps.Keys(f.ContainerEnv)) {
		set(key, f.ContainerEnv[key])
	}
	for _, key := range slices.Sorted(maps.Keys(f.RemoteEnv)) {
		if value := f.RemoteEnv[key]; value != nil {
			set(key, *value)
		} else {
			delete(c.Env, key)
		}
	}
}

// expand puts in the folders that are known inside.
func expand(text string) string {
	return strings.NewReplacer(
		"${containerWorkspaceFolder}", forage.WorkspacePath,
		"${containerWorkspaceFolderBasename}", path.Base(forage.WorkspacePath),
	).Replace(text)
}

// commandLines makes shell command lines of a command: text, a list of words, or a table of either.
func commandLines(raw json.RawMessage) (lines []string, err error) {
	var text string
	var words []string
	var table map[string]json.RawMessage
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case json.Unmarshal(raw, &text) == nil:
		if strings.TrimSpace(text) != "" {
			lines = append(lines, expand(text))
		}
		return lines, nil
	case json.Unmarshal(raw, &words) == nil:
		for i, word := range words {
			words[i] = "'" + strings.ReplaceAll(expand(word), "'", `'\''`) + "'"
		}
		return []string{strings.Join(words, " ")}, nil
	case json.Unmarshal(raw, &table) == nil:
		for _, key := range slices.Sorted(maps.Keys(table)) {
			more, err := commandLines(table[key])
			if err != nil {
				return nil, err
			}
			lines = append(lines, more...)
		}
		return lines, nil
	}
	return nil, errors.New("expected text, a list of words, or a table of either")
}

// mounts takes the named volumes. Folders of the host are for the user to show.
func (c *Container) mounts(list []json.RawMessage) {
	for _, raw := range list {
		fields := map[string]string{}
		var text string
		if json.Unmarshal(raw, &text) == nil {
			for _, field := range strings.Split(text, ",") {
				key, value, _ := strings.Cut(field, "=")
				fields[key] = value
			}
		} else if json.Unmarshal(raw, &fields) != nil {
			c.leave("a mount that can't be read")
			continue
		}
		source, target := cmp.Or(fields["source"], fields["src"]), expand(cmp.Or(fields["target"], fields["dst"], fields["destination"]))
		name := strings.Trim(source, "${}")
		if fields["type"] != "volume" || forage.CheckName(name) != nil || !path.IsAbs(target) || strings.Contains(target, ":") {
			c.leave("the mount of %q: it is no named volume; show a folder with --mount", source)
			continue
		}
		c.Volumes = append(c.Volumes, Volume{name, path.Clean(target)})
	}
}
