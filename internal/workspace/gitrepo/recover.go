package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/workspace"
)

// RecoveryRefs is where recovery refs are: RecoveryRefs + SANDBOX/TIME[-PART]/REF, TIME being RFC 3339 in
// UTC without colons. REF is work, the branch with what was not committed on top, or
// what a ref inside was called, without refs/, as far as that is plain: see keptNames.
const RecoveryRefs = "refs/forage/recovery/"

// recoveryTime is in the names of those refs: sandboxes of one name can follow each other within a second.
const recoveryTime = "2006-01-02T150405.000Z"

// Keep makes refs in the host's repository, below RecoveryRefs, that hold all of w's work that is nowhere
// else, uncommitted files included, and returns them. What can't be had as objects of git, such as
// repositories inside the folder and commits that don't pass git's checks, is moved to a folder.
// The sandbox isn't running any more, and w is about to be removed.
func Keep(ctx context.Context, w forage.Workspace, sandbox, scratch string) (kept []workspace.Recovery, err error) {
	if w.Repository == nil {
		return nil, nil
	}
	unlock, err := lockImport(ctx, w)
	if err != nil {
		return nil, err
	}
	defer unlock()
	i, err := openImport(ctx, Open, w, scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, i.close()) }()
	if _, err := i.staged(); err != nil {
		return nil, err
	}
	k := &keeping{importing: i, sandbox: sandbox, made: time.Now().UTC().Truncate(time.Millisecond)}
	err = k.run(ctx)
	return k.kept, err
}

// keeping is one Keep.
type keeping struct {
	*importing
	sandbox string
	made    time.Time
	kept    []workspace.Recovery
	spoilt  bool // something in the private metadata can't be had as objects of git
}

func (k *keeping) run(ctx context.Context) error {
	state, err := loadImported(k.w)
	if err != nil {
		return err
	}
	tip, ref, err := k.tip(ctx, state)
	if err != nil {
		return err
	}
	if err := k.others(ctx, ref); err != nil {
		return err
	}
	if err := k.work(ctx, tip); err != nil {
		return err
	}
	if hasTree(k.w) && !gone(k.w.Path) {
		staged, err := k.onlyInIndex(ctx)
		k.spoilt = k.spoilt || err != nil || len(staged) > 0
	}
	if k.spoilt {
		return k.moveAside("git", k.path())
	}
	return nil
}

func (k *keeping) path() string { return filepath.Join(k.w.Repository.Dir, "git") }

// tip brings the commit inside that stands for the work to the staging, and returns it with the name of what has it, or returns
// where the branch on the host is.
func (k *keeping) tip(ctx context.Context, state imported) (tip, ref string, err error) {
	at, err := placeInside(k.from, k.w, state)
	if err == nil {
		tip, ref = state.tip(at)
	}
	if err == nil && tip != "" {
		err = k.take(ctx, tip)
	}
	if ctx.Err() != nil {
		return "", "", err
	}
	if k.spoilt = err != nil; !k.spoilt && tip != "" {
		return tip, ref, nil
	}
	tip, err = k.host.Branch(ctx, branchRef(k.w.Branch))
	return tip, ref, err
}

// KeepPatience is how long is taken before a removal to look for work, and again to bring its commits, all together: who was inside can
// make objects that take git days.
const KeepPatience = time.Hour

// take brings a commit to the staging, if it passes git's checks.
func (k *keeping) take(ctx context.Context, ids ...string) error {
	ctx, cancel := context.WithDeadline(ctx, k.made.Add(KeepPatience))
	defer cancel()
	s, err := k.fetch(ctx, "", ids...)
	if err != nil {
		return err
	}
	return s.Sized(ctx, ids...)
}

// MaxKept is how many refs, or heads of jj, are kept one by one. Of more, which somebody inside made to be in the way, the whole
// metadata is kept as it is.
const MaxKept = 500

// others keeps the refs inside but one, and all that was stashed.
func (k *keeping) others(ctx context.Context, but string) error {
	refs, odd, err := k.insideRefs()
	if err != nil {
		k.spoilt = true
		return nil
	}
	k.spoilt = k.spoilt || len(odd) > 0
	delete(refs, but)
	for n, id := range k.stashed() {
		name := fmt.Sprintf("refs/stash-%d", n+1)
		for refs[name] != "" { // a ref of the agent's
			name += "-"
		}
		refs[name] = id
	}
	lost, err := k.lost(ctx, refs)
	if err != nil {
		return err
	}
	if len(lost) > MaxKept {
		k.spoilt = true
		return nil
	}
	var ids []string
	for _, name := range lost {
		ids = append(ids, refs[name])
	}
	whole := len(ids) == 0 || k.take(ctx, ids...) == nil
	names := keptNames{workName}
	for _, name := range lost {
		if !whole {
			err := k.take(ctx, refs[name])
			if ctx.Err() != nil {
				return err
			}
			if err != nil {
				k.spoilt = true
				continue
			}
		}
		if err := k.keep(ctx, names.give(name, refs[name]), refs[name]); err != nil {
			return err
		}
	}
	return nil
}

// Bounds of what is kept of the stash.
const (
	maxStashLog = 1 << 20
	maxStashed  = 100
)

// stashed are the commits of the stash but its newest, which is refs/stash: newest first.
func (k *keeping) stashed() []string {
	text, err := k.from.read("logs/refs/stash", maxStashLog)
	if err != nil {
		return nil
	}
	var ids []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(line, " ", 3); len(fields) == 3 && isHex(fields[1]) {
			ids = append(ids, fields[1])
		}
	}
	slices.Reverse(ids)
	if len(ids) < 2 {
		return nil
	}
	return ids[1:min(len(ids), maxStashed)]
}

// work keeps the branch, with what was not committed on top.
func (k *keeping) work(ctx context.Context, tip string) error {
	top := tip
	if hasTree(k.w) {
		var err error
		if top, err = k.commitFiles(ctx, tip); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("keeping uncommitted work: %w", err)
			}
			// Nothing inside may keep the sandbox from being removed: the files are kept as they are.
			if moved := k.moveAside("tree", k.w.Path); moved != nil {
				return fmt.Errorf("keeping uncommitted work: %w", errors.Join(err, moved))
			}
			top = tip
		}
	}
	if top == "" {
		return nil
	}
	if top == tip {
		if safe, err := k.stage.contains(ctx, tip, branchRef(k.w.Branch)); err != nil || safe {
			return err
		}
	}
	return k.keep(ctx, workName, top)
}

// workName is what the recovery ref of the work itself is called.
const workName = "work"

// keep makes a recovery ref.
func (k *keeping) keep(ctx context.Context, name, id string) error {
	ref := k.prefix() + "/" + name
	err := k.stage.push(ctx, k.host, id, ref, "")
	if err != nil && name == workName && ctx.Err() == nil {
		// A file that git's checks refuse, such as a .gitmodules: a recovery ref may have it.
		has, _ := k.host.Branch(ctx, branchRef(k.w.Branch))
		if err = k.stage.Bring(ctx, k.host.Repository, id, has); err == nil {
			err = k.host.MoveBranch(ctx, ref, "", id, "forage: kept for recovery")
		}
	}
	if err != nil {
		return fmt.Errorf("keeping %s: %w", name, err)
	}
	k.kept = append(k.kept, workspace.Recovery{Sandbox: k.sandbox, Store: k.w.Repository.Store, Ref: ref, Made: k.made})
	return nil
}

func (k *keeping) prefix() string {
	prefix := RecoveryRefs + k.sandbox + "/" + k.made.Format(recoveryTime)
	if k.w.Name != "" && k.w.Name != workspace.Main {
		prefix += "-" + k.w.Name
	}
	return prefix
}
