package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"forage"
	"forage/internal/guest/guestclient"
	"forage/internal/supervisor"
	"forage/internal/workspace/autorun"
)

// sidesOf divides the arguments of a copy: NAME:PATH is inside, all else is on the host. A path
// with a colon is written with a slash before it.
func sidesOf(src, dst string) (name, inside, outside string, in bool, err error) {
	from, fromPath, fromInside := sandboxPath(src)
	to, toPath, toInside := sandboxPath(dst)
	switch {
	case fromInside && toInside:
		err = forage.WithHint(forage.Errorf(forage.ErrUsage, "both %s and %s are inside a sandbox", src, dst), "copy to this machine first, then from there")
	case toInside:
		return to, toPath, src, true, nil
	case fromInside:
		return from, fromPath, dst, false, nil
	default:
		err = forage.WithHint(forage.Errorf(forage.ErrUsage, "neither %s nor %s is inside a sandbox", src, dst), "NAME:PATH is a path in the sandbox NAME")
	}
	return "", "", "", false, err
}

func sandboxPath(arg string) (name, path string, ok bool) {
	name, path, ok = strings.Cut(arg, ":")
	return name, path, ok && forage.CheckName(name) == nil
}

// Copy copies files between the host and a running sandbox, one of src and dst is NAME:PATH. told
// is called with the bytes copied so far.
func (s *Service) Copy(ctx context.Context, src, dst string, told func(int64)) (guestclient.Copied, error) {
	var copied guestclient.Copied
	name, inside, outside, in, err := sidesOf(src, dst)
	if err != nil {
		return copied, err
	}
	if src == "-" || dst == "-" {
		return copied, forage.WithHint(forage.Errorf(forage.ErrUsage, "archives are not copied"), "forage-ctl exec "+name+" -- tar -c . writes one to stdout, and tar -x reads one")
	}
	if outside == "" {
		return copied, forage.Errorf(forage.ErrUsage, "the path on this machine is empty")
	}
	client, closed, err := s.reachFiles(ctx, name, "cp", inside)
	if err != nil {
		return copied, err
	}
	defer closed()
	copier, closed, err := client.Copier(ctx)
	if err != nil {
		return copied, err
	}
	defer closed()
	copier.Told, copier.Resolve = told, s.leadsTo
	if in {
		copied, err = copier.Upload(outside, inside)
	} else {
		var before autorun.Baseline
		copier.Folder = func(folder string) { before, _ = autorun.Take(ctx, folder) } // of one that is not there: nothing
		copied, err = copier.Download(inside, outside)
		s.tellCopied(ctx, copied.Made, before)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) && err == error(at) { // not Go's word for what was tried
		err = fmt.Errorf("%s: %w", at.Path, at.Err)
	}
	if err != nil {
		err = fmt.Errorf("copying: %w", err)
	}
	return copied, err
}

// leadsTo finds where a path of the host leads. Below the workspace of a sandbox no link is
// followed, neither out of it nor to another place in it: the agent can make links, and can't write
// to all that is there.
func (s *Service) leadsTo(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if err := s.Host.StaysWithin(path, resolved); err != nil {
		return "", err
	}
	records, _, err := s.Host.Store.List()
	if err != nil {
		return "", err
	}
	for _, record := range records {
		for _, w := range record.Plan.Workspaces() {
			if rest, below := strings.CutPrefix(resolved, w.Path+"/"); below && !w.ReadOnly && !strings.HasSuffix(path, "/"+rest) {
				return "", forage.WithHint(
					forage.Errorf(forage.ErrRefused, "%s leads to %s by a link that the agent of sandbox %s can make", path, resolved, record.Name),
					"name the folder that you mean: "+resolved)
			}
		}
	}
	return resolved, nil
}

// tellCopied says what of what was copied out tools of the host would execute.
func (s *Service) tellCopied(ctx context.Context, made string, before autorun.Baseline) {
	if made == "" {
		return
	}
	if finding, ok := autorun.Classify(filepath.Base(made), 0, 0o100644, ""); ok && finding.Kind.Immediate() {
		s.Notify(fmt.Sprintf("look at %s first: %s", made, finding.Why))
		return
	}
	found, _ := autorun.Scan(ctx, made, before) // what could be looked through
	found = slices.DeleteFunc(found, func(f autorun.Finding) bool { return !f.Kind.Immediate() })
	if len(found) > 0 {
		s.Notify(fmt.Sprintf("look at %s in %s first: %s (%d such findings)", found[0].Path, made, found[0].Why, len(found)))
	}
}

// reachFiles connects to a running sandbox, after its supervisor has put on record what for.
func (s *Service) reachFiles(ctx context.Context, name, method, what string) (*guestclient.Client, func(), error) {
	record, err := s.running(name)
	if err != nil {
		return nil, nil, err
	}
	if err := s.client(name).Record(ctx, execEvent(method, []string{what})); err != nil {
		return nil, nil, err
	}
	client, err := s.connect(ctx, record)
	if err != nil {
		return nil, nil, err
	}
	return client, func() { client.Close() }, nil
}

// Forwarding is a port of the host's loopback that leads to one of a sandbox's.
type Forwarding struct {
	Local, Remote int
	// Elsewhere takes a port that is free where Local is taken.
	Elsewhere bool
}

// ParseForwarding reads LOCAL[:REMOTE].
func ParseForwarding(text string) (Forwarding, error) {
	local, remote, both := strings.Cut(text, ":")
	if !both {
		remote = local
	}
	to, err := strconv.ParseUint(remote, 10, 16)
	from, fromErr := strconv.ParseUint(local, 10, 16)
	if err != nil || fromErr != nil || to == 0 {
		return Forwarding{}, forage.WithHint(forage.Errorf(forage.ErrUsage, "%q: expected a port, or two: LOCAL:REMOTE", text), "for example 3000, or 8080:3000")
	}
	return Forwarding{Local: int(from), Remote: int(to)}, nil
}

// Pages are those that programs inside ask the user to open, the last one first, and the ports that
// servers inside listen on.
func (s *Service) Pages(ctx context.Context, name string) ([]supervisor.Page, []supervisor.Port, error) {
	if _, err := s.running(name); err != nil {
		return nil, nil, err
	}
	answer, err := s.client(name).Status(ctx)
	return answer.Pages, answer.Ports, err
}

// Opened says that the user opens a page, or will not. When it fails, it must not be opened.
func (s *Service) Opened(ctx context.Context, name, url string, allow bool) error {
	return s.client(name).Opened(ctx, url, allow)
}

// ForwardWhile forwards a port as long as a server inside listens on it. It looks every two seconds.
func (s *Service) ForwardWhile(ctx context.Context, name string, port int, ready func(Forwarding) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errGone := errors.New("nothing listens inside")
	go func() {
		for missed := 0; missed < 2 && ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
			answer, err := s.client(name).Status(ctx)
			if missed++; err != nil || slices.ContainsFunc(answer.Ports, func(p supervisor.Port) bool { return p.Port == port }) {
				missed = 0
			}
		}
		cancel(errGone)
	}()
	err := s.Forward(ctx, name, []Forwarding{{Local: port, Remote: port}}, ready)
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// Listening forwards the ports that servers inside listen on; there is one at least.
func (s *Service) Listening(ctx context.Context, name string) (all []Forwarding, _ error) {
	if _, err := s.running(name); err != nil {
		return nil, err
	}
	answer, err := s.client(name).Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range answer.Ports {
		all = append(all, Forwarding{Local: p.Port, Remote: p.Port, Elsewhere: true})
	}
	if len(all) == 0 {
		return nil, forage.WithHint(fmt.Errorf("nothing in %s listens on a port yet", name), "name the port: one may be forwarded before its server starts")
	}
	return all, nil
}

// Forward has ports of the host's loopback lead to servers inside, until ctx or the sandbox ends.
// ready is told of each, once all are listened on.
func (s *Service) Forward(ctx context.Context, name string, all []Forwarding, ready func(Forwarding) error) error {
	var what []string
	for _, f := range all {
		what = append(what, "localhost:"+strconv.Itoa(f.Remote))
	}
	client, closed, err := s.reachFiles(ctx, name, "forward", strings.Join(what, " "))
	if err != nil {
		return err
	}
	defer closed()
	var listeners []*net.TCPListener
	defer func() {
		for _, listener := range listeners {
			listener.Close()
		}
	}()
	for i, f := range all {
		listen := supervisor.ListenAt
		if f.Elsewhere {
			listen = supervisor.ListenNear
		}
		listener, err := listen(f.Local)
		if err != nil {
			return forage.WithHint(fmt.Errorf("listening on port %d of this machine: it is taken, or not yours", f.Local),
				fmt.Sprintf("forage-ctl forward %s 0:%d takes one that is free", name, f.Remote))
		}
		listeners = append(listeners, listener)
		all[i].Local = listener.Addr().(*net.TCPAddr).Port
	}
	for _, f := range all {
		if err := ready(f); err != nil {
			return err
		}
	}
	var forwarding sync.WaitGroup
	errs := make([]error, len(all))
	for i, f := range all {
		forwarding.Go(func() { errs[i] = client.Forward(ctx, listeners[i], f.Remote) })
	}
	forwarding.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("forwarding: the sandbox %s has ended", name)
}
