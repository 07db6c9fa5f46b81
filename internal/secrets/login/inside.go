package login

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"forage"
)

// Placeholders are what stands for a login's tokens inside a sandbox: of the shape that
// the agent expects, the same for the same names, and no secret. The file is
// not needed for them, so that a plan can hold them.
func Placeholders(kind forage.LoginKind, sandbox, secret string) (access, refresh string, err error) {
	form, err := formOf(kind)
	if err != nil {
		return "", "", err
	}
	seed := sha256.New()
	for _, part := range []string{"placeholders of a login", string(kind), sandbox, secret} {
		seed.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		seed.Write([]byte(part))
	}
	access, refresh = form.placeholders(seed.Sum(nil))
	return access, refresh, nil
}

// File is one of an agent's files as it looks inside.
type File struct {
	Path    string // below the home
	Content []byte
	// Renew: it has placeholders, and is written anew at each start. Another one is the agent's
	// once it is there.
	Renew bool
}

// Inside makes the files that an agent finds inside in place of its login file,
// whose content is file: the same login, with placeholders for the tokens, that
// never ends. They hold nothing else that is secret, and should belong to the
// agent, which writes to them.
func Inside(kind forage.LoginKind, file []byte, access, refresh string) ([]File, error) {
	form, err := formOf(kind)
	if err != nil {
		return nil, err
	}
	contents, err := form.inside(file, access, refresh)
	if err != nil {
		return nil, fmt.Errorf("the login file %w", err)
	}
	files := []File{}
	for _, path := range slices.Sorted(maps.Keys(contents)) {
		files = append(files, File{Path: path, Content: contents[path], Renew: bytes.Contains(contents[path], []byte(access))})
	}
	return files, nil
}
