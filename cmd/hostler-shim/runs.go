package main

import (
	"context"
	"sync"

	"github.com/hostler/hostler/runtime/shim"
)

const (
	// keptRuns is how many outcomes are remembered, so that a server that has
	// lost its session, or itself, can ask again.
	keptRuns = 1024
	// keptBytes is how much output these may hold together. The oldest lose
	// theirs first, and keep their exit code.
	keptBytes = 4 << 20
)

// runs are the commands that run and the outcomes of those that have.
type runs struct {
	// mu guards what follows.
	mu    sync.Mutex
	byKey map[string]*run
	over  []*run // oldest first
	bytes int    // of output that is kept
	lean  int    // how many at the head of over have lost their output
}

// run is one command by its key.
type run struct {
	key    string
	cancel context.CancelFunc // ends the command as its timeout would
	queued chan struct{}      // closed when it has to wait its turn
	begun  chan struct{}      // closed when its turn has come
	done   chan struct{}      // closed when answer is set
	answer shim.Answer

	lost bool // the container's processes were ended under it; guarded by runs.mu
}

func newRuns() *runs { return &runs{byKey: make(map[string]*run)} }

// find gives the run of a key, and whether it is new: then cancel is what ends
// it.
func (r *runs) find(key string, cancel context.CancelFunc) (found *run, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byKey[key]; ok {
		return known, false
	}
	made := &run{
		key: key, cancel: cancel,
		queued: make(chan struct{}), begun: make(chan struct{}), done: make(chan struct{}),
	}
	r.byKey[key] = made
	return made, true
}

// known gives the run of a key; nil when there is none.
func (r *runs) known(key string) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byKey[key]
}

// finish records the outcome of a run.
func (r *runs) finish(over *run, answer shim.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if over.lost {
		answer = shim.Answer{Fault: &shim.Fault{
			Code: shim.CodeLost, Detail: "every process was ended while the command ran"}}
	}
	over.answer = answer
	over.cancel()
	close(over.done)
	r.over = append(r.over, over)
	r.bytes += outputSize(answer)
	r.shrink()
}

// shrink forgets what is too old and too much.
func (r *runs) shrink() {
	for len(r.over) > keptRuns {
		r.bytes -= outputSize(r.over[0].answer)
		delete(r.byKey, r.over[0].key)
		r.over = r.over[1:]
		r.lean = max(0, r.lean-1)
	}
	for r.bytes > keptBytes && r.lean < len(r.over)-1 {
		old := r.over[r.lean]
		r.lean++
		r.bytes -= outputSize(old.answer)
		old.answer = withoutOutput(old.answer)
	}
}

func outputSize(a shim.Answer) int {
	if a.Result == nil {
		return 0
	}
	out, err := a.Result.Stdout, a.Result.Stderr
	return len(out.Head) + len(out.Tail) + len(err.Head) + len(err.Tail)
}

// withoutOutput copies, for the old result may be on its way to somebody.
func withoutOutput(a shim.Answer) shim.Answer {
	if a.Result == nil {
		return a
	}
	result := *a.Result
	for _, o := range []*struct {
		head, tail *string
		truncated  *bool
	}{
		{&result.Stdout.Head, &result.Stdout.Tail, &result.Stdout.Truncated},
		{&result.Stderr.Head, &result.Stderr.Tail, &result.Stderr.Truncated},
	} {
		*o.truncated = *o.truncated || *o.head+*o.tail != ""
		*o.head, *o.tail = "", ""
	}
	a.Result = &result
	return a
}

// outcome is the answer of a run that is done.
func (r *runs) outcome(over *run) shim.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return over.answer
}

// cancel ends one command.
func (r *runs) cancel(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byKey[key]; ok {
		known.cancel()
	}
}

// lose marks every command that is not over as lost, and gives them.
func (r *runs) lose() []*run {
	r.mu.Lock()
	defer r.mu.Unlock()
	var under []*run
	for _, known := range r.byKey {
		select {
		case <-known.done:
		default:
			known.lost = true
			under = append(under, known)
		}
	}
	return under
}

// forget drops all outcomes: they were another tenant's.
func (r *runs) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, old := range r.over {
		delete(r.byKey, old.key)
	}
	r.over, r.bytes, r.lean = nil, 0, 0
}
