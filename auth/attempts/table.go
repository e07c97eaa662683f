package attempts

import (
	"container/list"
	"net/netip"
)

// table has a value for each of a bounded number of clients. A new one takes the
// place of that whose value was put first.
type table[T any] struct {
	max     int
	entries map[netip.Prefix]*list.Element
	order   *list.List // of *entry[T], the one that was put last in front
}

type entry[T any] struct {
	client netip.Prefix
	value  T
}

func newTable[T any](limit int) *table[T] {
	return &table[T]{max: limit, entries: map[netip.Prefix]*list.Element{}, order: list.New()}
}

// get returns the value of a client: nil without one.
func (t *table[T]) get(client netip.Prefix) *T {
	e, ok := t.entries[client]
	if !ok {
		return nil
	}
	return &e.Value.(*entry[T]).value
}

// put sets the value of a client.
func (t *table[T]) put(client netip.Prefix, value T) {
	if e, ok := t.entries[client]; ok {
		e.Value.(*entry[T]).value = value
		t.order.MoveToFront(e)
		return
	}
	if len(t.entries) >= t.max {
		t.remove(t.order.Back().Value.(*entry[T]).client)
	}
	t.entries[client] = t.order.PushFront(&entry[T]{client, value})
}

// remove removes a client.
func (t *table[T]) remove(client netip.Prefix) {
	if e, ok := t.entries[client]; ok {
		t.order.Remove(e)
		delete(t.entries, client)
	}
}
