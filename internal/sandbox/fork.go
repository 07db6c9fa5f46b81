package sandbox

import (
	"cmp"
	"context"
	"errors"

	"forage"
	"forage/internal/hostile"
	"forage/internal/sandbox/work"
	"forage/internal/store"
)

// Fork makes a second sandbox, other, as the first was made, and from the state of its workspace:
// the commits, the files as they are, with what is ignored, and the private repository with index
// and stash. The first goes on as it is.
func (s *Service) Fork(ctx context.Context, name, other string) (_ Status, err error) {
	if name == other {
		return Status{}, forage.Errorf(forage.ErrUsage, "the second sandbox needs another name than %s", name)
	}
	unlock, err := s.lock(ctx, other)
	if err != nil {
		return Status{}, err
	}
	defer unlock()
	if _, there, err := s.found(ctx, other); there || err != nil {
		return Status{}, cmp.Or(err, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "a sandbox named %q is there already", other), "choose another name"))
	}
	var from work.State
	err = s.locked(ctx, name, func(record store.Record) (err error) {
		from, err = s.Work.Keep(ctx, record, other)
		return err
	})
	if err != nil {
		return Status{}, err
	}
	var copies []string // folders of the user's that were made
	defer func() {
		for _, folder := range copies {
			if err != nil {
				err = errors.Join(err, hostile.RemoveAll(folder))
			}
		}
	}()
	fork, err := s.Host.Fork(ctx, from.Record, other, func(part, folder string) error {
		err := s.Work.CopyTo(ctx, from, part, folder)
		if err == nil {
			copies = append(copies, folder)
		}
		return err
	})
	if err != nil {
		return Status{}, err
	}
	s.tell(s.Host.MissingSecrets(fork.Plan))
	fill := func(ctx context.Context, _ store.Record) error { return s.Work.TakeOver(ctx, from, fork.Parts) }
	if err := s.create(ctx, fork.Plan, fill); err != nil {
		return Status{}, err
	}
	if err := errors.Join(s.Work.Remember(other, from), s.Work.Update(ctx, fork.Plan)); err != nil {
		s.Notify(err.Error())
	}
	record, err := s.Host.Store.Load(other)
	return s.status(ctx, record), err
}
