package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
)

// downloads is how many layers are fetched at once.
const downloads = 3

// tries is how often a layer's download is begun: unstalled ends one that gives nothing any more.
const tries = 3

// applyTo applies all layers to t, from the lowest, downloading the others meanwhile
// into the folder tmp.
func (p *picture) applyTo(ctx context.Context, t *tree, tmp string, o Options) error {
	m := &meter{layers: len(p.layers), total: p.size(), report: o.Progress}
	group, ctx := errgroup.WithContext(ctx)
	ready := p.fetch(ctx, group, tmp, m)
	group.Go(func() error {
		left := o.Limits.Bytes
		for i, l := range p.layers {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-ready[i]:
			}
			t.nextLayer(i == 0)
			if err := p.applyOne(ctx, t, l, i, tmp, &left, m); err != nil {
				return fmt.Errorf("layer %d of %d: %w", i+1, len(p.layers), err)
			}
		}
		return nil
	})
	return group.Wait()
}

// fetch downloads the layers that are not on disk, in order, and closes the channel of
// each that is there.
func (p *picture) fetch(ctx context.Context, group *errgroup.Group, tmp string, m *meter) []chan struct{} {
	ready := make([]chan struct{}, len(p.layers))
	for i := range ready {
		ready[i] = make(chan struct{})
	}
	var next sync.Mutex
	at := 0
	take := func() int {
		next.Lock()
		defer next.Unlock()
		at++
		return at - 1
	}
	for range downloads {
		group.Go(func() error {
			for i := take(); i < len(p.layers); i = take() {
				if p.layers[i].remote {
					if err := p.layers[i].download(ctx, blobFile(tmp, i), m); err != nil {
						return fmt.Errorf("downloading layer %d of %d: %w", i+1, len(p.layers), err)
					}
				}
				close(ready[i])
			}
			return nil
		})
	}
	return ready
}

func blobFile(tmp string, i int) string { return filepath.Join(tmp, fmt.Sprintf("layer-%d", i)) }

// download writes the layer's bytes to path and verifies them. A connection that
// breaks is tried again; wrong bytes are not.
func (l layer) download(ctx context.Context, path string, m *meter) (err error) {
	for range tries {
		var n int64
		n, err = l.downloadOnce(ctx, path, m)
		if err == nil || n == l.size || ctx.Err() != nil {
			return err
		}
		m.add("downloading", 0, -n)
	}
	return err
}

func (l layer) downloadOnce(ctx context.Context, path string, m *meter) (n int64, err error) {
	from, err := l.open(ctx)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { from.Close() })
	defer stop()
	content := newHashing(ctx, from, l.size)
	n, err = io.Copy(to, &counted{content, func(n int) { m.add("downloading", 0, int64(n)) }})
	if err == nil {
		err = content.check("blob", l.blob)
	}
	return n, errors.Join(err, to.Close())
}

// applyOne applies one layer, from where it was downloaded to or from its own place.
func (p *picture) applyOne(ctx context.Context, t *tree, l layer, i int, tmp string, left *int64, m *meter) error {
	if l.remote {
		l.open = func(context.Context) (io.ReadCloser, error) { return os.Open(blobFile(tmp, i)) }
	}
	blob, err := l.open(ctx)
	if err != nil {
		return err
	}
	m.start(i)
	err = t.applyLayer(ctx, l, &counted{blob, func(n int) { m.add("unpacking", i+1, int64(n)) }}, left)
	if l.remote {
		err = errors.Join(err, os.Remove(blobFile(tmp, i)))
	}
	return errors.Join(err, blob.Close())
}

// counted tells how much was read.
type counted struct {
	r    io.Reader
	tell func(int)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.tell(n)
	return n, err
}

// meter turns counts into calls of Options.Progress.
type meter struct {
	mu       sync.Mutex
	layers   int
	total    int64
	download int64
	unpacked int64
	report   func(Progress)
}

func (m *meter) start(layer int) { m.add("unpacking", layer+1, 0) }

func (m *meter) add(step string, layer int, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	done := &m.unpacked
	if layer == 0 {
		done = &m.download
	}
	*done += n
	if m.report != nil {
		m.report(Progress{Step: step, Layer: layer, Layers: m.layers, Done: *done, Total: m.total})
	}
}
