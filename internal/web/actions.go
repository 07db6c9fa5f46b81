package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"forage"
	"forage/internal/agent"
)

// maxFile bounds a file that is dropped, in bytes.
const maxFile = 1 << 30

// run runs a command of this program's to its end, whether the browser stays or not, and answers
// with what it printed. It has said why it failed.
func (s *Server) run(w http.ResponseWriter, args ...string) {
	said, err := s.Sandboxes.Run(args...)
	s.soon()
	if err != nil {
		fail(w, http.StatusConflict, errors.New(strings.TrimPrefix(said, "forage-ctl: ")))
		return
	}
	answer(w, map[string]string{"said": said})
}

// runs runs a command on the sandbox.
func (s *Server) runs(command ...string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, name string) {
		s.run(w, append(slices.Clone(command), name)...)
	}
}

// asks answers with what ask says of the sandbox.
func asks(ask func(ctx context.Context, name string) (any, error)) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, name string) {
		said, err := ask(r.Context(), name)
		if err != nil {
			fail(w, 0, err)
			return
		}
		answer(w, said)
	}
}

// modes are the flags that name a workspace.
var modes = map[string]string{"direct": "--workspace=", "git-worktree": "--git-worktree=", "jj": "--repo=", "clone": "--clone="}

// create makes a sandbox.
func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var wanted struct{ Name, Template, Workspace, Mode, Branch, Task string }
	if !read(w, r, &wanted) {
		return
	}
	choices, err := s.Sandboxes.Choices()
	if err == nil {
		err = forage.CheckName(wanted.Name)
	}
	at := slices.IndexFunc(choices.Templates, func(t Template) bool { return t.Name == wanted.Template })
	flag := modes[wanted.Mode]
	if below, ok := strings.CutPrefix(wanted.Workspace, "~/"); ok { // no shell does it
		wanted.Workspace = filepath.Join(choices.Home, below)
	}
	switch {
	case err != nil:
	case at < 0:
		err = forage.Errorf(forage.ErrTemplateNotFound, "there is no template %q", wanted.Template)
	case flag == "":
		err = forage.Errorf(forage.ErrUsage, "there is no mode %q", wanted.Mode)
	case wanted.Mode != "clone" && !filepath.IsAbs(wanted.Workspace):
		err = forage.Errorf(forage.ErrUsage, "the folder needs a whole path, with / or ~/ at its beginning")
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	args := []string{"up", "--template=" + wanted.Template, flag + wanted.Workspace}
	if wanted.Branch != "" {
		args = append(args, "--branch="+wanted.Branch)
	}
	args = append(args, wanted.Name)
	if wanted.Task != "" {
		args = slices.Concat(args, []string{"--"}, agent.WithTask(choices.Templates[at].Command, wanted.Task))
	}
	s.run(w, args...)
}

// allow allows what was refused, and nothing else: the page says what it showed.
func (s *Server) allow(w http.ResponseWriter, r *http.Request, name string) {
	var wanted struct{ Allow, Mode string }
	if !read(w, r, &wanted) {
		return
	}
	all, err := s.Sandboxes.Refusals(r.Context(), name)
	if err != nil {
		fail(w, 0, err)
		return
	}
	if wanted.Allow == "" || !slices.ContainsFunc(all, func(one Refusal) bool { return one.Allow == wanted.Allow && one.Mode == wanted.Mode }) {
		fail(w, http.StatusConflict, fmt.Errorf("%q is not refused, or not so: look again", wanted.Allow))
		return
	}
	args := []string{"network", name, "--allow=" + wanted.Allow}
	if wanted.Mode != "" {
		args = append(args, wanted.Mode)
	}
	s.run(w, args...)
}

// apply brings what was chosen of what the page has shown, to its end, whether the browser stays or
// not. With dryRun it says what that would do.
func (s *Server) apply(w http.ResponseWriter, r *http.Request, name string) {
	var wanted struct {
		Parts  []Chosen
		DryRun bool
	}
	if !read(w, r, &wanted) {
		return
	}
	said, err := s.Sandboxes.Apply(context.WithoutCancel(r.Context()), name, wanted.Parts, wanted.DryRun)
	if err != nil {
		fail(w, 0, err)
		return
	}
	s.soon()
	answer(w, map[string]string{"said": said})
}

func (s *Server) down(w http.ResponseWriter, r *http.Request, name string) {
	var wanted struct{ Force bool }
	if !read(w, r, &wanted) {
		return
	}
	s.run(w, "down", fmt.Sprintf("--force=%t", wanted.Force), name)
}

// drop puts a file into the workspace. Its name is a name alone.
func (s *Server) drop(w http.ResponseWriter, r *http.Request, name string) {
	file := r.URL.Query().Get("name")
	if err := checkFile(file); err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	if r.ContentLength < 0 || r.ContentLength > maxFile {
		fail(w, http.StatusRequestEntityTooLarge, fmt.Errorf("a file may have %d MiB", maxFile>>20))
		return
	}
	at, err := s.Sandboxes.Drop(r.Context(), name, file, http.MaxBytesReader(w, r.Body, maxFile))
	if err != nil {
		fail(w, 0, err)
		return
	}
	answer(w, map[string]string{"said": at})
}

// checkFile refuses what is no plain name of a file: it comes from the user's file manager, and may
// have been chosen by who sent them the file.
func checkFile(name string) error {
	bad := func(c rune) bool { return c == '/' || c == '\\' || c == utf8.RuneError || !unicode.IsPrint(c) }
	switch {
	case name == "" || name == "." || name == ".." || len(name) > 255 || strings.ContainsFunc(name, bad):
		return forage.Errorf(forage.ErrUsage, "%q is no plain name of a file", name)
	case strings.HasPrefix(name, "."):
		return forage.Errorf(forage.ErrUsage, "%q: names that begin with a dot say what tools do; put it there with `forage-ctl cp`", name)
	}
	return nil
}
