package workqueue

// timeline is a heap of items by time, and of those with the same time in the
// order in which they were added.
type timeline[K comparable] []*item[K]

// notDelayed is the index of an item that is not in a timeline.
const notDelayed = -1

func (t timeline[K]) Len() int { return len(t) }

func (t timeline[K]) Less(a, b int) bool {
	if order := t[a].at.Compare(t[b].at); order != 0 {
		return order < 0
	}
	return t[a].added < t[b].added
}

func (t timeline[K]) Swap(a, b int) {
	t[a], t[b] = t[b], t[a]
	t[a].index, t[b].index = a, b
}

// Push appends an item. It is called by package heap.
func (t *timeline[K]) Push(x any) {
	i := x.(*item[K]) //nolint:forcetypeassert // only items are pushed
	i.index = len(*t)
	*t = append(*t, i)
}

// Pop removes the last item. It is called by package heap.
func (t *timeline[K]) Pop() any {
	last := len(*t) - 1
	i := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	i.index = notDelayed
	return i
}
