package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage/internal/sandbox/plan"

	"forage"
)

// A named volume is a folder of the state folder that the sandboxes which name it share. Like a
// home, it was written inside: on the host it is mounted and removed, and nothing in it is ever
// opened.

// Volume is a named volume.
type Volume struct {
	Name string `json:"name"`
	Path string `json:"path"` // on the host
	// UsedBy are the sandboxes that have it, whether or not they run.
	UsedBy []string `json:"usedBy"`
}

// makeVolumes makes the volumes that are not there yet.
func makeVolumes(spec forage.Spec) error {
	for _, mount := range spec.Mounts {
		if !mount.Volume {
			continue
		}
		if err := makeOwned(mount.Source, spec.Identity); err != nil {
			return err
		}
	}
	return nil
}

// Volumes lists the named volumes. With records that can't be read, it lists them beside an error.
func (s *Service) Volumes() ([]Volume, error) {
	entries, err := os.ReadDir(s.Host.VolumesDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	records, readErr := s.Host.Readable()
	var volumes []Volume
	for _, entry := range entries {
		volume := Volume{Name: entry.Name(), Path: filepath.Join(s.Host.VolumesDir(), entry.Name()), UsedBy: []string{}}
		if forage.CheckName(volume.Name) != nil {
			continue // on its way out
		}
		for _, record := range records {
			if slices.ContainsFunc(record.Plan.Spec.Mounts, func(m forage.Mount) bool { return m.Volume && m.Source == volume.Path }) {
				volume.UsedBy = append(volume.UsedBy, record.Name)
			}
		}
		volumes = append(volumes, volume)
	}
	return volumes, errors.Join(err, readErr)
}

// RemoveVolume removes a volume with all that is in it, unless a sandbox has it.
func (s *Service) RemoveVolume(name string) error {
	if err := plan.CheckVolume(name); err != nil {
		return err
	}
	volumes, err := s.Volumes()
	if err != nil { // who uses it is not known
		return err
	}
	at := slices.IndexFunc(volumes, func(v Volume) bool { return v.Name == name })
	if at < 0 {
		return forage.WithHint(forage.Errorf(forage.ErrNotFound, "no volume is called %s", name), "`forage-ctl volumes list` lists them")
	}
	if used := volumes[at].UsedBy; len(used) > 0 {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the volume %s is in use by %s", name, strings.Join(used, ", ")),
			"forage-ctl down "+strings.Join(used, " "))
	}
	if err := removeOwned(volumes[at].Path); err != nil {
		return fmt.Errorf("removing the volume %s: %w", name, err)
	}
	return nil
}
