package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// downloads is how many layers are fetched at once, and tries how often each is begun.
const (
	downloads = 3
	tries     = 3
)

// applyTo applies all layers to t, from the lowest, downloading the others meanwhile
// into the folder tmp.
func (p *picture) applyTo(ctx context.Context, t *tree, tmp string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(1 + downloads)
	ready := make([]chan struct{}, len(p.layers))
	for i := range ready {
		ready[i] = make(chan struct{})
	}
	group.Go(func() error {
		left := t.limits.Bytes
		for i := range p.layers {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-ready[i]:
			}
			t.nextLayer(i == 0)
			if err := t.applyLayer(ctx, p.layers[i], &left); err != nil {
				return fmt.Errorf("layer %d of %d: %w", i+1, len(p.layers), err)
			}
		}
		return nil
	})
	var done atomic.Int64
	got := func(n int) { done.Add(int64(n)) }
	if t.limits.progress != nil {
		got = func(n int) { t.limits.progress(done.Add(int64(n)), p.size()) }
	}
	for i := range p.layers {
		group.Go(func() error {
			if p.layers[i].remote {
				if err := p.layers[i].download(ctx, filepath.Join(tmp, fmt.Sprintf("layer-%d", i)), got); err != nil {
					return fmt.Errorf("downloading layer %d of %d: %w", i+1, len(p.layers), err)
				}
			}
			close(ready[i])
			return nil
		})
	}
	return group.Wait()
}

// download writes the layer's bytes, which the library verifies, to path, and opens it there from
// then on. A download that breaks off is tried again. got is told how many bytes came.
func (l *layer) download(ctx context.Context, path string, got func(int)) error {
	fetch := func() error {
		from, err := l.open()
		if err != nil {
			return err
		}
		defer from.Close()
		to, err := os.Create(path)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { from.Close() })
		defer stop()
		_, err = io.Copy(to, io.TeeReader(io.LimitReader(from, l.size+1), counter(got)))
		return errors.Join(err, to.Close())
	}
	var err error
	for range tries {
		if err = fetch(); err == nil || ctx.Err() != nil {
			break
		}
	}
	l.open = func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		return f, errors.Join(err, os.Remove(path))
	}
	return err
}

// counter tells how much was written to it.
type counter func(n int)

func (c counter) Write(p []byte) (int, error) {
	c(len(p))
	return len(p), nil
}
