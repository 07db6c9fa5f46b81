package plan

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"forage"
	"forage/internal/devcontainer"
)

// Project is the folder of the workspace that opts ask for: what is built, and whose
// devcontainer.json counts.
func (h *Host) Project(opts Options) (string, error) {
	p := &planner{host: h, opts: opts}
	main, _, err := p.askedMain()
	if err != nil {
		return "", err
	}
	return projectFolder(main)
}

func projectFolder(part forage.Part) (string, error) {
	folder, err := filepath.EvalSymlinks(part.Repo)
	if err != nil {
		return "", forage.Errorf(forage.ErrUsage, "the project is no folder of this machine: %w", err)
	}
	return folder, nil
}

// devcontainer takes from the project's devcontainer.json the image, in the place of the template's
// root, and what the template leaves open: variables, commands before the agent, and volumes of the
// project's own.
func (p *planner) devcontainer() error {
	folder, err := projectFolder(p.parts[0])
	if err != nil {
		return err
	}
	c, err := devcontainer.Read(folder)
	if err != nil {
		return err
	}
	if c.Image != "" && p.opts.Image == "" {
		p.opts.Image = "image:" + c.Image
	}
	maps.Copy(c.Env, p.chosen.Env)
	p.chosen.Env = c.Env
	p.chosen.Init = append(slices.Clone(p.chosen.Init), c.Init...)
	volumes := maps.Clone(p.chosen.Volumes)
	if volumes == nil {
		volumes = map[string]string{}
	}
	for _, volume := range c.Volumes {
		name := fmt.Sprintf("%.40s-%.6x", volume.Name, sha256.Sum256([]byte(folder)))
		if _, ok := volumes[name]; !ok {
			volumes[name] = volume.Target
		}
	}
	p.chosen.Volumes = volumes
	for _, note := range c.Notes {
		p.note("%s", note)
	}
	for _, port := range c.Ports {
		p.note("devcontainer.json forwards %d: `forage-ctl forward %s %d` does, while the sandbox runs", port, p.opts.Name, port)
	}
	return nil
}
