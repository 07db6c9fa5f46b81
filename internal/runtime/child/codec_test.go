package child

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
)

// fullBoot has a value other than zero in every field, whatever is added.
func fullBoot(t testing.TB) boot {
	t.Helper()
	var b boot
	next := int64(1)
	fill(t, reflect.ValueOf(&b).Elem(), &next)
	return b
}

func fill(t testing.TB, v reflect.Value, next *int64) {
	*next++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(*next << 20)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.Uint8:
		v.SetUint(uint64(*next % 256))
	case reflect.String:
		v.SetString(strings.Repeat("x\x00", int(*next)))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range 3 {
			fill(t, v.Index(i), next)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), next)
		}
	default:
		t.Fatalf("a boot frame has a %v", v.Kind())
	}
}

func TestBootCodec(t *testing.T) {
	for name, want := range map[string]boot{
		"full":  fullBoot(t),
		"least": {Guest: []byte{}},
		"edges": {DiskMax: math.MaxInt64, Inodes: math.MinInt64, Guest: []byte{0}, Files: []forage.File{{Content: []byte{}}}},
	} {
		got, err := decodeBoot(want.encode())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestBootCodecShares: a content that several files have is sent once, and is one again.
func TestBootCodecShares(t *testing.T) {
	content := []byte(strings.Repeat("certificate", 1000))
	b := boot{Guest: []byte{}, Files: []forage.File{
		{Path: "/a", Content: content}, {Path: "/b", Content: []byte{}}, {Path: "/c", Content: content, Owned: true},
		{Path: "/d", Content: content[:11]}, {Path: "/e", Content: content},
	}}
	blob := b.encode()
	if len(blob) > 2*len(content) {
		t.Errorf("%d bytes for contents of %d", len(blob), len(content))
	}
	got, err := decodeBoot(blob)
	if diff := cmp.Diff(b, got); diff != "" || err != nil {
		t.Fatalf("%v %s", err, diff)
	}
	if &got.Files[0].Content[0] != &got.Files[4].Content[0] {
		t.Error("the content is there twice")
	}
}

func TestBootCodecCut(t *testing.T) {
	b := fullBoot(t)
	whole := b.encode()
	for n := range len(whole) {
		if _, err := decodeBoot(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are enough", n, len(whole))
		}
	}
	if _, err := decodeBoot(append(whole, 0)); err == nil {
		t.Error("a byte too many")
	}
}

func FuzzDecodeBoot(f *testing.F) {
	b := fullBoot(f)
	f.Add(b.encode())
	f.Fuzz(func(t *testing.T, blob []byte) {
		if b, err := decodeBoot(blob); err == nil {
			if _, err := decodeBoot(b.encode()); err != nil {
				t.Error(err)
			}
		}
	})
}
