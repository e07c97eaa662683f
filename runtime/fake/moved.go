package fake

import "sync"

// Moved is what trees have moved between containers and the server. The holes of
// files count as nothing.
type Moved struct {
	Listed       int   // entries that scans have returned
	FilesRead    int   // files that scans have opened
	BytesRead    int64 // what these held
	Created      int   // entries of any kind that writers have completed
	FilesWritten int   // the files of them
	BytesWritten int64 // what these hold
	Removed      int   // calls of Remove that found something
}

// Moved returns what was moved since New or ForgetMoved.
func (rt *Runtime) Moved() Moved {
	rt.moved.mu.Lock()
	defer rt.moved.mu.Unlock()
	return rt.moved.total
}

// ForgetMoved sets what was moved to zero.
func (rt *Runtime) ForgetMoved() {
	rt.moved.count(func(m *Moved) { *m = Moved{} })
}

type movedCounters struct {
	mu    sync.Mutex // guards total; a container's may be held
	total Moved
}

func (c *movedCounters) count(change func(*Moved)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.total)
}
