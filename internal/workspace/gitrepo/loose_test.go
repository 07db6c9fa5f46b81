package gitrepo

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLinksOfObjects(t *testing.T) {
	raw := strings.Repeat("\x11", 20)
	other := strings.Repeat("22", 20)
	for _, test := range []struct {
		name string
		o    object
		want []string
		bad  bool
	}{
		{"a commit", object{"commit", []byte("tree " + someID + "\nparent " + other + "\nauthor x\nparent " + someID + "\n\ntree " + someID + "\n")}, []string{someID, other}, false},
		{"a tag", object{"tag", []byte("object " + other + "\ntype commit\n")}, []string{other}, false},
		{"a blob", object{"blob", nil}, nil, false},
		{"a tree", object{"tree", []byte("100644 a\x00" + raw + "160000 sub\x00" + raw + "40000 dir\x00" + strings.Repeat("\x22", 20))}, []string{strings.Repeat("11", 20), other}, false},
		{"a tree that is cut off", object{"tree", []byte("100644 a\x00" + raw[1:])}, nil, true},
		{"a tree without an end", object{"tree", []byte("100644 a")}, nil, true},
		{"a commit of a path", object{"commit", []byte("tree ../../../x\n")}, nil, true},
	} {
		got, err := test.o.links(20)
		if diff := cmp.Diff(test.want, got); diff != "" || test.bad != errors.Is(err, errIrregular) {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
}

// FuzzLooseObject: whatever the bytes of an object are, it is refused or it is what its name says.
func FuzzLooseObject(f *testing.F) {
	for _, content := range []string{"blob 3\x00abc", "tree 0\x00", "commit 46\x00tree " + someID + "\n", "blob 4\x00abc", "tag 00\x00", "blob -1\x00"} {
		var compressed bytes.Buffer
		z := zlib.NewWriter(&compressed)
		if _, err := z.Write([]byte(content)); err != nil {
			f.Fatal(err)
		}
		if err := z.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add("f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f", compressed.Bytes())
	}
	f.Fuzz(func(t *testing.T, id string, compressed []byte) {
		var c looseCopy
		o, err := c.check(id, int64(len(compressed)), bytes.NewReader(compressed))
		if err == nil && !isHex(id) {
			t.Errorf("%q is the name of %q", id, o.kind)
		}
		_, _ = o.links(20)
	})
}

func FuzzTreeLinks(f *testing.F) {
	f.Add([]byte("100644 a\x00" + strings.Repeat("\x11", 20)))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, size := range []int{20, 32} {
			links, err := treeLinks(body, size)
			for _, id := range links {
				if err == nil && !isHex(id) {
					t.Errorf("%q", id)
				}
			}
		}
	})
}

// An object that is little on the disk and takes long to inflate is refused by its header.
func TestLooseObjectsAreNoBombs(t *testing.T) {
	var compressed bytes.Buffer
	z := zlib.NewWriter(&compressed)
	fmt.Fprintf(z, "blob %d\x00", 1<<30)
	z.Flush() // the rest is never read
	_, err := (&looseCopy{}).check(someID, 1<<20, bytes.NewReader(compressed.Bytes()))
	if !errors.Is(err, errIrregular) || !strings.Contains(err.Error(), "1073741824 bytes in 1048576") {
		t.Errorf("a gigabyte in a megabyte: %v", err)
	}
	if _, err := (&looseCopy{}).check(someID, 1<<29, bytes.NewReader(compressed.Bytes())); err == nil || strings.Contains(err.Error(), " bytes in ") {
		t.Errorf("a gigabyte in half of one: %v", err)
	}
}
