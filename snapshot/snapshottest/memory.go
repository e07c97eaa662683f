// Package snapshottest has an in-memory bucket with fault injection, for tests
// of snapshots and of the flows that move them.
//
// It fulfills the contract of snapshot.Bucket, also with injected failures: an
// object exists completely or not at all. It starts no goroutine and reads no
// clock except that of package time, so that it can be used within
// testing/synctest.
package snapshottest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/snapshot"
)

var _ snapshot.Bucket = (*Memory)(nil)

// ErrInjected is the error of calls that a test makes fail.
var ErrInjected = errors.New("injected failure")

// Call is one call of a bucket.
type Call struct {
	Op  string // put, create, get, range, list or delete
	Key string
}

// Memory stores objects in memory.
type Memory struct {
	// mu guards what follows.
	mu      sync.Mutex
	objects map[string]object
	calls   []Call
	budget  int // remaining bytes and calls; unlimited below 0
	before  func(Call) error
	after   func(Call) error
	ahead   time.Duration
}

type object struct {
	data []byte
	time time.Time
}

// NewMemory returns an empty bucket.
func NewMemory() *Memory { return &Memory{objects: map[string]object{}, budget: -1} }

// Before sets a function that is called before each call. If it returns an
// error, the call fails with it.
func (m *Memory) Before(f func(Call) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = f
}

// After sets a function that is called after each successful call. The call
// returns its result, although it has taken effect, as when an answer is lost.
func (m *Memory) After(f func(Call) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.after = f
}

// FailAfter makes the bucket fail after n more operations, where each byte
// written or read and each call is one.
func (m *Memory) FailAfter(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budget = n
}

// SetClock makes the clock of the bucket differ from that of this process.
func (m *Memory) SetClock(ahead time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead = ahead
}

// ClearFailures ends FailAfter, Before and After.
func (m *Memory) ClearFailures() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budget, m.before, m.after = -1, nil, nil
}

// Objects returns all objects and their contents.
func (m *Memory) Objects() map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string][]byte{}
	for key, o := range m.objects {
		all[key] = bytes.Clone(o.data)
	}
	return all
}

// Set stores an object with the given time.
func (m *Memory) Set(key string, data []byte, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[key] = object{bytes.Clone(data), at}
}

// Calls returns the calls of an operation so far, or all calls for "".
func (m *Memory) Calls(op string) []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Call
	for _, c := range m.calls {
		if op == "" || c.Op == op {
			list = append(list, c)
		}
	}
	return list
}

// consume subtracts n from the budget.
func (m *Memory) consume(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget < 0 {
		return nil
	}
	if n > m.budget {
		m.budget = 0
		return ErrInjected
	}
	m.budget -= n
	return nil
}

// call makes a call, unless a failure is injected.
func (m *Memory) call(ctx context.Context, op, key string, action func() error) error {
	call := Call{op, key}
	m.mu.Lock()
	m.calls = append(m.calls, call)
	before, after := m.before, m.after
	m.mu.Unlock()
	err := context.Cause(ctx)
	if err == nil {
		err = m.consume(1)
	}
	if err == nil && before != nil {
		err = before(call)
	}
	if err == nil {
		err = action()
	}
	if err == nil && after != nil {
		err = after(call)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", op, key, err)
	}
	return nil
}

// Put implements snapshot.Bucket.
func (m *Memory) Put(ctx context.Context, key string, r io.Reader) error {
	return m.call(ctx, "put", key, func() error { return m.store(ctx, key, r) })
}

// Create implements snapshot.Bucket.
func (m *Memory) Create(ctx context.Context, key string, data []byte) error {
	return m.call(ctx, "create", key, func() error { return m.store(ctx, key, bytes.NewReader(data)) })
}

func (m *Memory) store(ctx context.Context, key string, r io.Reader) error {
	data, err := io.ReadAll(&budgetReader{ctx, m, r})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.objects[key]; there {
		return snapshot.ErrExists
	}
	m.objects[key] = object{data, time.Now().Add(m.ahead)}
	return nil
}

// budgetReader subtracts the bytes that are read from the budget, and ends with
// its context.
type budgetReader struct {
	ctx  context.Context //nolint:containedctx // of the one call that reads it
	m    *Memory
	from io.Reader
}

func (r *budgetReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	if spent := r.m.consume(n); spent != nil {
		return 0, spent
	}
	return n, err
}

// Get implements snapshot.Bucket.
func (m *Memory) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	var r io.Reader
	err := m.call(ctx, "get", key, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		o, there := m.objects[key]
		if !there {
			return snapshot.ErrNoObject
		}
		r = &budgetReader{ctx, m, bytes.NewReader(o.data)}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return io.NopCloser(r), nil
}

// GetRange implements snapshot.Bucket.
func (m *Memory) GetRange(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error) {
	var r io.Reader
	err := m.call(ctx, "range", key, func() error {
		if err := snapshot.CheckRange(offset, size); err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		o, there := m.objects[key]
		if !there {
			return snapshot.ErrNoObject
		}
		if int64(len(o.data)) < offset+size {
			return fmt.Errorf("the object has %d bytes: %w", len(o.data), io.ErrUnexpectedEOF)
		}
		r = &budgetReader{ctx, m, bytes.NewReader(o.data[offset : offset+size])}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return io.NopCloser(r), nil
}

// List implements snapshot.Bucket.
func (m *Memory) List(ctx context.Context, prefix string, each func(snapshot.Object) error) error {
	return m.call(ctx, "list", prefix, func() error {
		m.mu.Lock()
		var list []snapshot.Object
		for _, key := range slices.Sorted(maps.Keys(m.objects)) {
			if o := m.objects[key]; strings.HasPrefix(key, prefix) {
				list = append(list, snapshot.Object{Key: key, Size: int64(len(o.data)), Time: o.time})
			}
		}
		m.mu.Unlock()
		for _, o := range list {
			if err := each(o); err != nil {
				return err
			}
		}
		return nil
	})
}

// Delete implements snapshot.Bucket.
func (m *Memory) Delete(ctx context.Context, key string) error {
	return m.call(ctx, "delete", key, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.objects, key)
		return nil
	})
}
