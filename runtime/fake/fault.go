package fake

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/runtime"
)

// Call is one call of the contract, as it is recorded and matched.
type Call struct {
	// Op is the method: check, create, start, restart, stop, destroy, status, list, logs,
	// watch, exec, put, get, seal or wipe; open_command, attach_command, list_commands,
	// end_command or end_commands; stat_file, list_files, read_file, write_file,
	// remove_file, read_tree or write_tree; dial_port or close_ports; scan_tree or
	// fill_tree. A trap can be set for reach and for the parts of the last two as well, which are
	// not recorded: scan_next, scan_read, fill_create, fill_remove and fill_close.
	Op string
	// ID is the container's; empty for list and watch.
	ID string
	// Args are the argv of a command, the paths of files, or the port.
	Args []string
	// Command is an exec's.
	Command runtime.Command
	// Fence is that of an exec or a put.
	Fence int64
}

// String returns the line that Calls lists: "exec c1 box echo hi".
func (c Call) String() string {
	return strings.Join(c.words(), " ")
}

func (c Call) words() []string {
	words := make([]string, 0, 2+len(c.Args))
	words = append(words, c.Op)
	if c.ID != "" {
		words = append(words, c.ID)
	}
	return append(words, c.Args...)
}

// subject returns the call as an error names it. An argv may hold secrets.
func (c Call) subject() string {
	if c.ID == "" {
		return c.Op
	}
	return c.Op + " " + c.ID
}

// Trap is an injected fault. Its error is the error of the call.
type Trap func(ctx context.Context, call Call) error

// faults has the traps for future calls, and the record of earlier ones.
type faults struct {
	// mu guards what follows. It is not held while a trap runs.
	mu    sync.Mutex
	calls []Call
	set   []*fault
}

type fault struct {
	pattern []string
	trap    Trap
	after   bool
}

// minKeptCalls is how many calls are kept at least. There is a limit because
// benchmarks make millions.
const minKeptCalls = 1 << 14

// record records a call and returns the traps set for it.
func (f *faults) record(call Call) (before, after []Trap) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) >= 2*minKeptCalls {
		f.calls = append(f.calls[:0], f.calls[len(f.calls)-minKeptCalls:]...)
	}
	f.calls = append(f.calls, Call{Op: call.Op, ID: call.ID, Args: call.Args})
	return f.match(call)
}

// traps returns the traps set for a part of a call.
func (f *faults) traps(part Call) (before, after []Trap) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.match(part)
}

// match returns the traps set for a call. The caller holds the lock.
func (f *faults) match(call Call) (before, after []Trap) {
	for _, one := range f.set {
		if !matches(one.pattern, call) {
			continue
		}
		if one.after {
			after = append(after, one.trap)
			continue
		}
		before = append(before, one.trap)
	}
	return before, after
}

// matches reports whether a call begins with the words of a pattern, in which "*"
// is any word.
func matches(pattern []string, call Call) bool {
	words := call.words()
	if len(pattern) > len(words) {
		return false
	}
	for i, p := range pattern {
		if p != "*" && p != words[i] {
			return false
		}
	}
	return true
}

func (f *faults) add(pattern string, after bool, trap Trap) (remove func()) {
	one := &fault{pattern: strings.Fields(pattern), trap: trap, after: after}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set = append(f.set, one)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.set = slices.DeleteFunc(f.set, func(o *fault) bool { return o == one })
	}
}

// Before runs trap at the beginning of every matching call, before anything is
// done. The pattern is a prefix of what Call.String returns, word by word, with
// "*" for any one: "create", "exec c1", "exec * migrate". Traps run in the order
// in which they were set; the first error is the error of the call.
func (rt *Runtime) Before(pattern string, trap Trap) (remove func()) {
	return rt.faults.add(pattern, false, trap)
}

// After runs trap when the action of a matching call has succeeded or failed. An
// error replaces the real one.
func (rt *Runtime) After(pattern string, trap Trap) (remove func()) {
	return rt.faults.add(pattern, true, trap)
}

// Break makes every matching call fail without effect.
func (rt *Runtime) Break(pattern string, err error) (restore func()) {
	return rt.Before(pattern, func(context.Context, Call) error { return err })
}

// BreakOnce makes the next matching call fail without effect.
func (rt *Runtime) BreakOnce(pattern string, err error) {
	var done atomic.Bool
	rt.Before(pattern, func(context.Context, Call) error {
		if done.Swap(true) {
			return nil
		}
		return err
	})
}

// DropResponse lets every matching call take effect and fail all the same, as
// when the connection to an engine breaks.
func (rt *Runtime) DropResponse(pattern string, err error) (restore func()) {
	return rt.After(pattern, func(context.Context, Call) error { return err })
}

// Block blocks every matching call, before anything is done, until release is
// called or the call's context ends. Reached is closed when the first call
// arrives.
func (rt *Runtime) Block(pattern string) (reached <-chan struct{}, release func()) {
	arrived, released := make(chan struct{}), make(chan struct{})
	arrive := sync.OnceFunc(func() { close(arrived) })
	remove := rt.Before(pattern, func(ctx context.Context, _ Call) error {
		arrive()
		select {
		case <-released:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return arrived, sync.OnceFunc(func() { remove(); close(released) })
}

// Delay makes every matching call take d longer.
func (rt *Runtime) Delay(pattern string, d time.Duration) (remove func()) {
	return rt.Before(pattern, func(ctx context.Context, _ Call) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// Calls returns the calls since New or ForgetCalls in the order in which they
// were made, at least the latest 16,384.
func (rt *Runtime) Calls() []string {
	rt.faults.mu.Lock()
	defer rt.faults.mu.Unlock()
	lines := make([]string, len(rt.faults.calls))
	for i, c := range rt.faults.calls {
		lines[i] = c.String()
	}
	return lines
}

// ForgetCalls empties the record.
func (rt *Runtime) ForgetCalls() {
	rt.faults.mu.Lock()
	defer rt.faults.mu.Unlock()
	rt.faults.calls = nil
}
