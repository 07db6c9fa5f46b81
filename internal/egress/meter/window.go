package meter

import "time"

// window counts what happened in the last minute, in slots of a second. Every minute,
// wherever it begins, holds no more than was allowed; a place becomes free
// at most a second late.
type window struct {
	began time.Time
	slots [61]int64 // of the seconds up to last, each at its number modulo the length
	last  int64     // the second, since began, that was counted last
	sum   int64
}

// take counts one when fewer than limit are in the window, and else returns how
// long to wait until there is room.
func (w *window) take(now time.Time, limit int64) time.Duration {
	const size = int64(len(w.slots))
	at := now.Sub(w.began)
	second := max(int64(at/time.Second), w.last) // a clock that is put back stands still
	for ; w.last < second && w.sum > 0; w.last++ {
		next := &w.slots[(w.last+1)%size]
		w.sum -= *next
		*next = 0
	}
	w.last = second
	if w.sum < limit {
		w.slots[second%size]++
		w.sum++
		return 0
	}
	left := w.sum
	for s := second - size + 1; ; s++ {
		if s < 0 {
			continue
		}
		if left -= w.slots[s%size]; left < limit {
			return time.Duration(s+size)*time.Second - at
		}
	}
}
