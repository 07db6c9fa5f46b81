package mount

import "testing"

func TestSwap(t *testing.T) {
	for _, pair := range [][2]int{{0, 54321}, {54321, 0}, {5, 5}, {1, 2}, {0, maxID - 1}, {1000, 1001}} {
		seen := map[int]bool{}
		total := 0
		for _, e := range swap(pair[0], pair[1]) {
			total += e.size
			for _, id := range []int{0, 1, 2, 5, 1000, 1001, 54321, maxID - 1} {
				if id < e.inside || id >= e.inside+e.size {
					continue
				}
				to := id - e.inside + e.outside
				want := map[int]int{pair[0]: pair[1], pair[1]: pair[0]}
				if w, ok := want[id]; ok && to != w || !ok && to != id || seen[to] {
					t.Errorf("%v: %d becomes %d", pair, id, to)
				}
				seen[to] = true
			}
		}
		if total != maxID || len(seen) != 8 {
			t.Errorf("%v: %d ids, %d of 8 looked at", pair, total, len(seen))
		}
	}
}
