// Package store keeps the records of sandboxes on disk: one JSON file each,
// replaced atomically, locked across processes. It also says where Forage keeps
// its files, and hands out what must be unique: names, ports, network slots. It knows
// nothing of how a sandbox is started, and it has no cache: what it returns is
// what is on disk.
package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forage"
	"forage/internal/hostile"
	"forage/internal/term"

	"golang.org/x/sys/unix"
)

// maxRecord bounds what is read as a record, in bytes.
const maxRecord = 16 << 20

// Store is the state folder:
//
//	DIR/sandboxes/NAME.json          the record
//	DIR/sandboxes/NAME.generated/    files made for the sandbox (its host key)
//	DIR/sandboxes/NAME.log           output of the agent's window
//	DIR/sandboxes/NAME.audit.jsonl   audit events, and .head beside it (see audit.HeadPath)
//	DIR/sandboxes/NAME.usage.json    what it has used of the network, see meter.Ledger
//	DIR/sandboxes/NAME.shown.json    what the user has seen as refused last
//	DIR/workspaces/                  what workspace providers make
//	DIR/locks/                       held locks
//	DIR/id_ed25519{,.pub}            the key pair that always works
//
// Folders are 0700 and files 0600. A Store can be used from several goroutines
// and processes at once.
type Store struct {
	dir string
	now func() time.Time
}

// Paths are the places of one sandbox's files, absolute.
type Paths struct {
	Record    string
	Generated string // folder
	Log       string
	Audit     string
	Usage     string
	Shown     string
}

// Open opens the state folder dir. A folder that is not there yet is an empty store; one that
// belongs to, or can be written to by, another user is ErrRefused.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, now: time.Now}
	for _, d := range []string{dir, s.sandboxes()} {
		if err := checkPrivate(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("opening the state folder: %w", err)
		}
	}
	return s, nil
}

// Dir is the state folder.
func (s *Store) Dir() string { return s.dir }

func (s *Store) sandboxes() string { return filepath.Join(s.dir, "sandboxes") }

// Paths says where the files of a sandbox are; name must be one by forage.CheckName.
func (s *Store) Paths(name string) Paths { return PathsIn(s.dir, name) }

// PathsIn is Store.Paths for the store in the state folder dir.
func PathsIn(dir, name string) Paths {
	base := filepath.Join(dir, "sandboxes", name)
	return Paths{
		Record:    base + ".json",
		Generated: base + ".generated",
		Log:       base + ".log",
		Audit:     base + ".audit.jsonl",
		Usage:     base + ".usage.json",
		Shown:     base + ".shown.json",
	}
}

// Create writes the record of a new sandbox and returns it with what was
// chosen for it: version, network slot and, unless ports is zero, port. It fails
// with ErrRefused when the name is in use and with ErrNoPort when no port is left.
// Ephemeral sandboxes get no slot, and their records are not synced to disk.
func (s *Store) Create(ctx context.Context, rec Record, ports Ports) (Record, error) {
	if err := forage.CheckName(rec.Name); err != nil {
		return Record{}, err
	}
	unlock, err := s.lock(ctx, storeLock)
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	if err := s.free(rec.Name); err != nil {
		return Record{}, err
	}
	rec.Version = Version
	if rec.CreatedAt.IsZero() {
		rec.CreatedAt = s.now().UTC().Truncate(time.Second)
	}
	if err := s.allocateLocked(&rec, ports); err != nil {
		return Record{}, err
	}
	if err := s.write(rec); err != nil {
		return Record{}, err
	}
	return rec, nil
}

// free reports ErrRefused when there is a record called name, readable or not.
func (s *Store) free(name string) error {
	_, err := os.Lstat(s.Paths(name).Record)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking for a sandbox %s: %w", name, err)
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "a sandbox called %s exists already", name),
		"choose another name, or remove it with `forage-ctl down "+name+"`")
}

// Load reads the record of a sandbox: ErrNotFound when there is none, a
// *BrokenError when it can't be used.
func (s *Store) Load(name string) (Record, error) {
	if err := forage.CheckName(name); err != nil {
		return Record{}, err
	}
	data, _, err := hostile.ReadFile(s.Paths(name).Record, unix.O_NOFOLLOW, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, forage.WithLateHint(forage.Errorf(forage.ErrNotFound, "no sandbox is called %s", name), func() string {
			records, _, _ := s.List() // what can be read may have been meant
			names := make([]string, len(records))
			for i, record := range records {
				names[i] = record.Name
			}
			if meant := term.Nearest(name, names); meant != "" {
				return fmt.Sprintf("did you mean %s? `forage-ctl ps` lists them", meant)
			}
			return "`forage-ctl ps` lists them"
		})
	}
	if err != nil {
		return Record{}, &BrokenError{Name: name, Err: err}
	}
	rec, err := decode(name, data)
	if err != nil {
		return Record{}, &BrokenError{Name: name, Err: err}
	}
	return rec, nil
}

// Save replaces the record of an existing sandbox; the caller holds its Lock.
// When it fails, the record on disk is the old one. ErrNotFound: it was removed.
func (s *Store) Save(rec Record) error {
	if err := forage.CheckName(rec.Name); err != nil {
		return err
	}
	if _, err := os.Lstat(s.Paths(rec.Name).Record); errors.Is(err, fs.ErrNotExist) {
		return forage.Errorf(forage.ErrNotFound, "no sandbox is called %s", rec.Name)
	}
	rec.Version = Version
	return s.write(rec)
}

func (s *Store) write(rec Record) error {
	data, err := json.Marshal(rec)
	if err == nil {
		err = WriteFile(s.Paths(rec.Name).Record, append(data, '\n'), !rec.Plan.Ephemeral)
	}
	if err != nil {
		return fmt.Errorf("saving the record of %s: %w", rec.Name, explain(err))
	}
	return nil
}

// Delete removes everything that is kept about a sandbox, its record last, so
// that a deletion which is interrupted is found again. An absent one succeeds.
// With keepAudit the audit log outlives the sandbox.
func (s *Store) Delete(name string, keepAudit bool) error {
	if err := forage.CheckName(name); err != nil {
		return err
	}
	p := s.Paths(name)
	files := []string{p.Generated, p.Log, p.Log + ".1", p.Usage, p.Shown}
	if !keepAudit {
		files = append(files, p.Audit, p.Audit+".head") // see audit.HeadPath
	}
	var errs []error
	for _, path := range files {
		errs = append(errs, os.RemoveAll(path))
	}
	err := errors.Join(errs...)
	if err == nil {
		err = os.Remove(s.Paths(name).Record)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the record of %s: %w", name, explain(err))
	}
	return nil
}

// BrokenError is a record that is there and can't be used: damaged, or written
// by a newer version. Nothing is changed or removed because of it.
type BrokenError struct {
	Name string
	Err  error
}

func (e *BrokenError) Error() string {
	return "the record of " + e.Name + " can't be read: " + e.Err.Error()
}
func (e *BrokenError) Unwrap() error { return e.Err }

// Note is a line for a list that goes on without the record: what is wrong with it, and what to do.
func (e *BrokenError) Note() string {
	what := forage.Hint(e.Err)
	what = cmp.Or(what, "`forage-ctl down --force "+e.Name+"` removes the sandbox")
	return e.Error() + "; " + what
}

// List returns the records of all sandboxes by name, and beside them those
// that are broken: a broken one never hides the others.
func (s *Store) List() ([]Record, []*BrokenError, error) {
	names, err := s.names()
	if err != nil {
		return nil, nil, err
	}
	var records []Record
	var broken []*BrokenError
	for _, name := range names {
		rec, err := s.Load(name)
		var b *BrokenError
		switch {
		case err == nil:
			records = append(records, rec)
		case errors.As(err, &b):
			broken = append(broken, b)
		case errors.Is(err, forage.ErrNotFound): // removed since we looked
		default:
			return nil, nil, err
		}
	}
	return records, broken, nil
}

func (s *Store) names() ([]string, error) {
	entries, err := os.ReadDir(s.sandboxes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	var names []string
	for _, entry := range entries {
		name, isRecord := strings.CutSuffix(entry.Name(), ".json")
		if isRecord && forage.CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// decode reads a record strictly: a frozen plan that is only partly understood
// would be only partly enforced, so a field that this version doesn't know is an
// error like a damaged one.
func decode(name string, data []byte) (Record, error) {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Record{}, fmt.Errorf("damaged: %w", err)
	}
	if head.Version > Version {
		return Record{}, forage.WithHint(
			fmt.Errorf("it has version %d and this Forage knows up to %d", head.Version, Version),
			"use the newer forage-ctl that made it")
	}
	if head.Version < 1 {
		return Record{}, fmt.Errorf("damaged: its version is %d", head.Version)
	}
	var rec Record
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&rec); err != nil {
		return Record{}, fmt.Errorf("damaged, or made by another version: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Record{}, errors.New("damaged: more follows the record")
	}
	if rec.Name != name {
		return Record{}, fmt.Errorf("damaged: it is about a sandbox called %q", rec.Name)
	}
	return rec, nil
}
