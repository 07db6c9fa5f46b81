package sandbox

import (
	"context"
	"fmt"
	"slices"

	"forage"
	"forage/internal/image"
	"forage/internal/term"
)

// Image is an unpacked image in the cache.
type Image struct {
	image.Unpacked
	UsedBy []string `json:"usedBy"` // sandboxes, whether or not they run
}

// Images lists the unpacked images, those that were used last first.
func (s *Service) Images() ([]Image, error) {
	unpacked, err := image.List(s.imageCache())
	if err != nil {
		return nil, err
	}
	records, err := s.Host.Readable()
	images := make([]Image, 0, len(unpacked))
	for _, one := range unpacked {
		used := []string{}
		for _, record := range records {
			if slices.Contains(record.Trees, one.Path) {
				used = append(used, record.Name)
			}
		}
		images = append(images, Image{one, used})
	}
	return images, err
}

func (s *Service) imageCache() string { return s.Host.Places.Of("any").ImageCache }

// PruneImages removes the unpacked images that no sandbox uses, and says which.
func (s *Service) PruneImages() (removed []Image, err error) {
	before, err := s.Images()
	if err != nil {
		return nil, err
	}
	paths, err := s.pruneImages(image.PruneOptions{})
	for _, one := range before {
		if slices.Contains(paths, one.Path) {
			removed = append(removed, one)
		}
	}
	return removed, err
}

// pruneImages removes nothing while a record can't be read.
func (s *Service) pruneImages(options image.PruneOptions) ([]string, error) {
	records, err := s.Host.Readable()
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		options.InUse = append(options.InUse, record.Trees...)
	}
	return image.Prune(s.imageCache(), options)
}

// pull has the plan's image in the cache before its sandbox starts, and tells how far it is. What
// the cache then has no room for goes.
func (s *Service) pull(ctx context.Context, spec forage.Spec) error {
	if spec.Rootfs.Kind != forage.RootfsImage && spec.Rootfs.Kind != forage.RootfsOCI {
		return nil
	}
	say, end := s.Pulling("getting the image " + spec.Rootfs.Ref)
	defer end()
	lower, err := image.Pull(ctx, spec.Rootfs, s.imageCache(), func(done, total int64) {
		say(fmt.Sprintf("%s of %s", term.Bytes(done), term.Bytes(total)))
	})
	if err != nil {
		return err
	}
	if _, err := s.pruneImages(image.PruneOptions{InUse: lower, Unused: imagesKept, Most: s.Host.Config.ImagesMax}); err != nil {
		s.Notify("images that no sandbox uses stay: " + err.Error())
	}
	return nil
}
