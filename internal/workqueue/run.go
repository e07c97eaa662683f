package workqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Task is one execution of a key.
type Task[K comparable] struct {
	Key   K
	queue *Queue[K]

	// The mutex of the queue guards the fields below.
	item     *item[K]
	group    *group[K]
	detached bool
	parked   bool
}

// Run executes keys until ctx ends, at most slots at once, and returns when the
// executions have ended. fn returns an error to have its key retried; ctx is its
// context. A panic of fn is logged, and is an error of that execution: it harms no
// other key. Only one Run may run at a time.
func (q *Queue[K]) Run(ctx context.Context, slots int, fn func(context.Context, *Task[K]) error) {
	var executions sync.WaitGroup
	defer executions.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		t, next := q.take(slots)
		if t != nil {
			executions.Go(func() { t.execute(ctx, fn) })
			continue
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
		case <-q.changed:
		case <-timer.C:
		}
	}
}

// errInterrupted is the result of an execution whose goroutine has exited.
var errInterrupted = errors.New("the execution did not return")

func (t *Task[K]) execute(ctx context.Context, fn func(context.Context, *Task[K]) error) {
	err := errInterrupted
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			t.queue.options.Log.Error("execution panicked; retrying", "key", fmt.Sprint(t.Key), "panic", p, "stack", string(debug.Stack()))
		}
		t.finish(err)
	}()
	err = fn(ctx, t)
}

// finish frees the slot and the key, and schedules what follows.
func (t *Task[K]) finish(err error) {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.parked {
		q.total.parked--
		t.group.usage.parked--
	} else {
		q.free(t.group)
	}
	q.tidy(t.group)
	if !t.detached {
		t.freeKey(err)
	}
	q.signal()
}

// freeKey ends the item's execution. A failed one is retried, unless the key was
// forgotten: it has another item then.
func (t *Task[K]) freeKey(err error) {
	q := t.queue
	i := q.items[t.Key]
	i.running = false
	if err != nil && i == t.item {
		i.failures++
		delay := q.options.Backoff.Delay(i.failures)
		if later, ok := errors.AsType[*retryError](err); ok {
			delay = later.delay
		}
		q.schedule(i, time.Now().Add(delay))
		return
	}
	i.failures = 0
	if i.waits {
		q.schedule(i, i.at)
	} else {
		delete(q.items, t.Key)
	}
}

// Detach frees the key, which can be executed again while this execution keeps
// its slot. It counts as a success, whatever the execution returns. It is called
// once.
func (t *Task[K]) Detach() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.detached = true
	t.freeKey(nil)
}

// Park frees the slot, because the execution only waits from now on. It keeps its
// key. It is called once.
func (t *Task[K]) Park() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	t.parked = true
	q.free(t.group)
	q.total.parked++
	t.group.usage.parked++
	q.signal()
}

// RetryAfter returns an error that has its key retried after d instead of after
// the backoff.
func RetryAfter(d time.Duration, err error) error { return &retryError{d, err} }

type retryError struct {
	delay time.Duration
	err   error
}

func (e *retryError) Error() string { return e.err.Error() }

func (e *retryError) Unwrap() error { return e.err }
