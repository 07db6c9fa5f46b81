package gitrepo

import (
	"slices"
	"strings"
)

// lineEnds are the settings that say with which line ends git writes files: git-config(1).
var lineEnds = [...]string{"core.autocrlf", "core.eol"}

// LineEnds has what works on the repository write files with the line ends that the user's git gives them, where the user's own
// configuration says so and the repository's doesn't. Files are read as data, and what they include if it is for every repository,
// or for this one by its place.
func (r *Repository) LineEnds(u UserConfig) {
	found := make(map[string]string)
	r.lineEnds(u, u.Files, found, 0)
	for _, key := range lineEnds {
		if found[key] != "" && r.last(key) == "" {
			r.Config[key] = []string{found[key]}
		}
	}
}

// maxIncludeDepth is how deep git follows includes.
const maxIncludeDepth = 10

func (r *Repository) lineEnds(u UserConfig, files []string, found map[string]string, depth int) {
	for _, file := range files {
		config, err := readConfig(file)
		if err != nil {
			continue // git says so
		}
		for _, key := range lineEnds {
			if values := config[key]; len(values) > 0 {
				found[key] = values[len(values)-1]
			}
		}
		var included []string
		for key, values := range config {
			if key != "include.path" && !strings.HasPrefix(key, "includeif.gitdir") {
				continue
			}
			for _, value := range values {
				if path, ok := u.includes(key, value, file, r.Common); ok {
					included = append(included, path)
				}
			}
		}
		if slices.Sort(included); depth < maxIncludeDepth {
			r.lineEnds(u, included, found, depth+1)
		}
	}
}
