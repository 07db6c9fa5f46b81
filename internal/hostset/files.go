package hostset

import (
	"archive/zip"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"forage"
)

// maxFile bounds each configuration file that is read.
const maxFile = 1 << 20

// readFile is a file of the caller's; nil is none.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if text == nil {
		text = []byte{}
	}
	return text, err
}

// uv adds what is configured for uv to config.
func (a *asker) uv(config *pipConfig) error {
	path := a.env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(path) { // XDG Base Directory Specification
		path = filepath.Join(a.caller.Home, ".config")
	}
	path = filepath.Join(path, "uv", "uv.toml")
	text, err := readFile(path)
	if err != nil {
		return err
	}
	type indexes struct {
		Index string   `toml:"index-url"`
		Extra []string `toml:"extra-index-url"`
	}
	var file struct {
		indexes
		Pip     indexes `toml:"pip"`
		Indexes []struct {
			URL     string `toml:"url"`
			Default bool   `toml:"default"`
		} `toml:"index"`
	}
	if err := toml.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	first := func(urls ...string) {
		for _, url := range urls {
			if config.index == "" {
				config.index = url
			} else if url != "" && url != config.index {
				config.extra = append(config.extra, url)
			}
		}
	}
	first(a.env("UV_DEFAULT_INDEX"), a.env("UV_INDEX_URL"))
	for _, index := range file.Indexes {
		if index.Default {
			first(index.URL)
		} else {
			config.extra = append(config.extra, index.URL)
		}
	}
	first(file.Index, file.Pip.Index)
	config.extra = append(append(config.extra, file.Extra...), file.Pip.Extra...)
	for _, index := range strings.Fields(a.env("UV_INDEX") + " " + a.env("UV_EXTRA_INDEX_URL")) {
		if i := strings.Index(index, "=http"); i >= 0 { // it may have a name
			index = index[i+1:]
		}
		config.extra = append(config.extra, index)
	}
	return nil
}

// cargoIndex finds the index in what cargo says when it can't reach it.
var cargoIndex = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("`?(https?://[^`\\s]+?)/config\\.json") })

// unreachable is a proxy that is not there. Cargo says where it would have gone, and goes nowhere.
const unreachable = "http://127.0.0.1:9"

// cargo asks cargo which index it uses. The question has an empty cache, so it can't be answered.
// The index says where packages are.
func (a *asker) cargo() error {
	home := a.env("CARGO_HOME")
	if !filepath.IsAbs(home) {
		home = filepath.Join(a.caller.Home, ".cargo")
	}
	empty, err := os.MkdirTemp("", "forage-cargo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(empty)
	config, err := a.cargoConfig(home, empty)
	if err != nil {
		return err
	}
	if a.program("cargo") == "" {
		return errors.New("cargo is not on your PATH")
	}
	out, err := a.run([]string{"CARGO_HOME=" + empty, "CARGO_HTTP_PROXY=" + unreachable, "CARGO_NET_RETRY=0"}, "cargo", "search", "forage")
	found := cargoIndex().FindSubmatch(out.Stderr)
	if found == nil {
		return errors.Join(errors.New("cargo does not say which index it uses"), err)
	}
	index := string(found[1])
	a.add(index)
	for _, registry := range config.Registries {
		a.add(strings.TrimPrefix(registry.Index, "sparse+"))
	}
	var served struct{ DL string }
	if text := a.get(index+"/config.json", "where "+index+" has its packages"); json.Unmarshal(text, &served) == nil {
		served.DL, _, _ = strings.Cut(served.DL, "{") // a template of the path
		a.addSaid(served.DL, index)
	}
	return nil
}

// cargoFile is what is read of cargo's configuration, and put inside.
type cargoFile struct {
	Source     map[string]map[string]any `toml:"source,omitempty"`
	Registries map[string]struct {
		Index string `toml:"index"`
	} `toml:"registries,omitempty"`
	Registry struct {
		Default string `toml:"default,omitempty"`
	} `toml:"registry,omitempty"`
}

// cargoConfig reads the configuration in home, copies it to empty, and puts what it says of
// registries inside: at the root, where cargo looks last.
func (a *asker) cargoConfig(home, empty string) (file cargoFile, err error) {
	for _, name := range []string{"config.toml", "config"} {
		path := filepath.Join(home, name)
		text, err := readFile(path)
		if err != nil || text == nil {
			continue
		}
		if err := toml.Unmarshal(text, &file); err != nil {
			return file, fmt.Errorf("reading %s: %w", path, err)
		}
		if err := os.WriteFile(filepath.Join(empty, "config.toml"), text, 0o600); err != nil {
			return file, err
		}
		break
	}
	var inside asker
	for name, source := range file.Source {
		for _, key := range []string{"registry", "directory", "local-registry", "git"} {
			text, ok := source[key].(string)
			switch rest, sparse := strings.CutPrefix(text, "sparse+"); {
			case !ok:
			case key != "registry": // is on the host alone
				delete(file.Source, name)
			case sparse:
				text, _ = inside.add(rest)
				source[key] = "sparse+" + text
			default:
				source[key], _ = inside.add(rest)
			}
		}
	}
	for _, source := range file.Source {
		if to, ok := source["replace-with"].(string); ok && file.Source[to] == nil && file.Registries[to].Index == "" {
			delete(source, "replace-with")
		}
	}
	for name, registry := range file.Registries {
		rest, sparse := strings.CutPrefix(registry.Index, "sparse+")
		if registry.Index, _ = inside.add(rest); sparse {
			registry.Index = "sparse+" + registry.Index
		}
		file.Registries[name] = registry
	}
	if len(file.Source)+len(file.Registries) == 0 {
		return file, nil
	}
	text, err := toml.Marshal(file)
	a.set.Files = append(a.set.Files, forage.File{Path: "/.cargo/config.toml", Content: text})
	return file, err
}

// mavenSettings is what is read of Maven's settings.xml.
type mavenSettings struct {
	Mirrors []struct {
		ID  string `xml:"id"`
		URL string `xml:"url"`
		Of  string `xml:"mirrorOf"`
	} `xml:"mirrors>mirror"`
	Repositories []string `xml:"profiles>profile>repositories>repository>url"`
	Plugins      []string `xml:"profiles>profile>pluginRepositories>pluginRepository>url"`
}

// maven reads Maven's settings, and its default repository from its own files.
func (a *asker) maven() error {
	path := filepath.Join(a.caller.Home, ".m2", "settings.xml")
	text, err := readFile(path)
	if err != nil {
		return err
	}
	var settings mavenSettings
	if text != nil {
		if err := xml.Unmarshal(text, &settings); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
	}
	var mirrors strings.Builder
	everything := false
	for _, mirror := range settings.Mirrors {
		everything = everything || slices.ContainsFunc(strings.Split(mirror.Of, ","), func(of string) bool { return of == "*" || of == "central" })
		if inside, ok := a.add(mirror.URL); ok {
			fmt.Fprintf(&mirrors, "<mirror><id>%s</id><url>%s</url><mirrorOf>%s</mirrorOf></mirror>", escaped(mirror.ID), escaped(inside), escaped(mirror.Of))
		}
	}
	a.addAll(append(settings.Repositories, settings.Plugins...))
	if mirrors.Len() > 0 {
		a.set.Files = append(a.set.Files, forage.File{
			Path: forage.HomePath + "/.m2/settings.xml", Owned: true, Mode: 0o644,
			Content: []byte("<settings><mirrors>" + mirrors.String() + "</mirrors></settings>\n"),
		})
	}
	if everything {
		return nil
	}
	program, err := filepath.EvalSymlinks(a.program("mvn"))
	if err != nil {
		return errors.New("mvn is not on your PATH")
	}
	libraries, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(program)), "lib", "maven-model-builder-*.jar"))
	if len(libraries) == 0 {
		return errors.New("the library of mvn was not found")
	}
	library, err := zip.OpenReader(libraries[0])
	if err != nil {
		return err
	}
	defer library.Close()
	file, err := library.Open(superPOM)
	if err != nil {
		return err
	}
	defer file.Close()
	var pom struct {
		URLs []string `xml:"repositories>repository>url"`
	}
	if err := xml.NewDecoder(io.LimitReader(file, maxFile)).Decode(&pom); err != nil {
		return err
	}
	a.addAll(pom.URLs)
	return nil
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}

// superPOM is the file in Maven's library that names the default repository.
const superPOM = "org/apache/maven/model/pom-4.0.0.xml"
