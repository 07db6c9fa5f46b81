package tlsmitm

import "container/list"

// maxRecent bounds the names whose certificates are kept.
const maxRecent = 1024

// lru keeps what was asked for last. It is guarded by its owner.
type lru struct {
	max   int
	order *list.List // of *entry, the last asked for first
	byKey map[string]*list.Element
}

type entry struct {
	key string
	*issued
}

func newLRU(max int) lru {
	return lru{max: max, order: list.New(), byKey: make(map[string]*list.Element)}
}

func (l *lru) get(key string) (*issued, bool) {
	at, ok := l.byKey[key]
	if !ok {
		return nil, false
	}
	l.order.MoveToFront(at)
	return at.Value.(*entry).issued, true
}

// put keeps a new entry, and forgets the oldest when there are too many.
func (l *lru) put(key string, value *issued) {
	l.byKey[key] = l.order.PushFront(&entry{key, value})
	if l.order.Len() > l.max {
		oldest := l.order.Remove(l.order.Back()).(*entry)
		delete(l.byKey, oldest.key)
	}
}
