package main

import (
	"context"
	"sync"

	"github.com/hostler/hostler/runtime/shim"
)

const (
	// maxKeptRuns is how many outcomes are kept, so that a server that has lost
	// its connection or was restarted can ask again.
	maxKeptRuns = 1024
	// maxKeptBytes is how much output these outcomes may hold together. The
	// oldest outcomes lose their output first and keep their exit code.
	maxKeptBytes = 4 << 20
)

// runs are the running commands and the outcomes of finished ones.
type runs struct {
	// mu guards the fields below.
	mu       sync.Mutex
	byID     map[string]*run
	finished []*run // oldest first
	bytes    int    // of output that is kept
	trimmed  int    // how many of the oldest finished runs have lost their output
}

// run is one command, identified by its run ID.
type run struct {
	id       string
	cancel   context.CancelFunc // ends the command as its timeout would
	queued   chan struct{}      // closed when it has to wait in the queue
	started  chan struct{}      // closed when it leaves the queue
	done     chan struct{}      // closed when response is set
	response shim.Response

	worker *workerProcess // that runs it; guarded by runs.mu
	ending bool           // none runs it any more; guarded by runs.mu
	lost   bool           // killAll killed its processes; guarded by runs.mu
	isOver bool           // nothing of it is left; guarded by asks.mu
}

func newRuns() *runs { return &runs{byID: make(map[string]*run)} }

// getOrCreate returns the run with an ID and whether it is new. Only then it
// uses cancel.
func (r *runs) getOrCreate(id string, cancel context.CancelFunc) (found *run, created bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byID[id]; ok {
		return known, false
	}
	added := &run{
		id: id, cancel: cancel,
		queued: make(chan struct{}), started: make(chan struct{}), done: make(chan struct{}),
	}
	r.byID[id] = added
	return added, true
}

// get returns the run with an ID, or nil if there is none.
func (r *runs) get(id string) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// lostResponse is the outcome of a command that a change of the container ended.
var lostResponse = shim.Response{Error: &shim.WireError{
	Code: shim.CodeContainerExited, Detail: "every process was killed while the command was running"}}

// finish records the outcome of a run.
func (r *runs) finish(ended *run, response shim.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ended.lost {
		response = lostResponse
	}
	ended.response = response
	ended.cancel()
	close(ended.done)
	r.finished = append(r.finished, ended)
	r.bytes += outputSize(response)
	r.evict()
}

// evict drops outcomes and output beyond the limits.
func (r *runs) evict() {
	for len(r.finished) > maxKeptRuns {
		r.bytes -= outputSize(r.finished[0].response)
		delete(r.byID, r.finished[0].id)
		r.finished = r.finished[1:]
		r.trimmed = max(0, r.trimmed-1)
	}
	for r.bytes > maxKeptBytes && r.trimmed < len(r.finished)-1 {
		old := r.finished[r.trimmed]
		r.trimmed++
		r.bytes -= outputSize(old.response)
		old.response = withoutOutput(old.response)
	}
}

func outputSize(a shim.Response) int {
	if a.Result == nil {
		return 0
	}
	out, err := a.Result.Stdout, a.Result.Stderr
	return len(out.Head) + len(out.Tail) + len(err.Head) + len(err.Tail)
}

// withoutOutput returns a copy, because the old result may be in use.
func withoutOutput(a shim.Response) shim.Response {
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

// response returns the response of a finished run.
func (r *runs) response(ended *run) shim.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	return ended.response
}

// setWorker records the worker that runs a command; nil when it has ended.
func (r *runs) setWorker(known *run, p *workerProcess) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known.worker, known.ending = p, p == nil
}

// workerOf returns the worker that runs a command, or nil, and whether one has run it.
func (r *runs) workerOf(known *run) (p *workerProcess, ending bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return known.worker, known.ending
}

// cancel ends one command.
func (r *runs) cancel(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byID[id]; ok {
		known.cancel()
	}
}

// markLost marks every unfinished command as lost and returns these.
func (r *runs) markLost() []*run {
	r.mu.Lock()
	defer r.mu.Unlock()
	var unfinished []*run
	for _, known := range r.byID {
		select {
		case <-known.done:
		default:
			known.lost = true
			unfinished = append(unfinished, known)
		}
	}
	return unfinished
}

// reset drops all outcomes, because they belong to another tenant.
func (r *runs) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, old := range r.finished {
		delete(r.byID, old.id)
	}
	r.finished, r.bytes, r.trimmed = nil, 0, 0
}
