package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// bucketClock knows the time of a bucket, which is that of its objects. What is
// collected is judged by it: the clock of a server may be wrong by any amount, and
// another server may have made a mark. It is safe for concurrent use.
type bucketClock struct {
	mu   sync.Mutex // guards what follows
	time time.Time  // of the bucket
	read time.Time  // of this server, when that was the time
}

const (
	// clockValid is how long a time that was read is used. This server's clock may
	// be slow.
	clockValid = 10 * time.Minute
	// clockStep is by how much the wall clock may differ from the monotonic one,
	// which does not advance while a machine is suspended.
	clockStep = 10 * time.Second
	// clockPrefix begins the names of objects that are made to know their time.
	clockPrefix = ".clock-"
)

// observe takes the time of an object that was made just now.
func (c *bucketClock) observe(o Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time, c.read = o.Time, time.Now()
}

// known returns the time if it was read not long ago. It may be earlier than the
// real one, by the duration of a request.
func (c *bucketClock) known() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	elapsed, wall := now.Sub(c.read), now.Round(0).Sub(c.read.Round(0))
	if c.read.IsZero() || elapsed > clockValid || (wall-elapsed).Abs() > clockStep {
		return time.Time{}, false
	}
	return c.time.Add(elapsed).UTC(), true
}

// now returns the time of the bucket. Unless it is known it makes an object
// for that, below an owner's directory, and removes it.
func (s *Sink) now(ctx context.Context, dir string) (time.Time, error) {
	if now, ok := s.clock.known(); ok {
		return now, nil
	}
	key := dir + manifestDir + clockPrefix + newID()
	if err := s.bucket.Create(ctx, key, []byte("clock")); err != nil {
		return time.Time{}, fmt.Errorf("read the clock of the bucket: %w", err)
	}
	found := false
	err := s.bucket.List(ctx, key, func(o Object) error {
		s.clock.observe(o)
		found = true
		return nil
	})
	_ = s.bucket.Delete(ctx, key) // else Prune removes it
	if err == nil && !found {
		err = ErrNoObject
	}
	now, ok := s.clock.known()
	if err == nil && !ok {
		err = errors.New("the clock of this server was set")
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read the clock of the bucket: %w", err)
	}
	return now, nil
}
