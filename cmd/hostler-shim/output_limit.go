package main

import (
	"math"
	"sync"
	"sync/atomic"
)

// outputLimit counts what a command writes to both streams.
type outputLimit struct {
	max      int64
	total    atomic.Int64
	exceeded chan struct{} // closed when total is greater than max
	once     sync.Once
}

// newOutputLimit returns a limit in bytes; 0 means none.
func newOutputLimit(limit int64) *outputLimit {
	if limit == 0 {
		limit = math.MaxInt64
	}
	return &outputLimit{max: limit, exceeded: make(chan struct{})}
}

func (o *outputLimit) add(n int) {
	if o.total.Add(int64(n)) > o.max {
		o.once.Do(func() { close(o.exceeded) })
	}
}

func (o *outputLimit) isExceeded() bool { return o.total.Load() > o.max }
