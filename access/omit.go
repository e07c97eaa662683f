package access

import (
	"sync"
	"time"

	"github.com/hostler/hostler/activity"
)

// The limits of what is recorded of a claim, of each kind: commands, uses of files
// and requests. What is beyond them is counted.
const (
	useBurst    = 50
	useInterval = 200 * time.Millisecond // between two, after the burst
)

// How long a claim that does nothing is remembered: with a count that no event has
// had yet, longer.
const (
	forgetAfter     = time.Minute
	forgetLostAfter = 10 * time.Minute
)

// maxOmittedCommands bounds the commands that are remembered as left out, so that
// their ends cost nothing.
const maxOmittedCommands = 4096

// commandKey names a command.
type commandKey struct{ claim, id string }

// allowance is what is left of the limits of a claim and a kind.
type allowance struct {
	full    time.Time // when all of the burst is available again
	omitted int64     // since the last one that was recorded
	// known are commands by ID: true from the record of the start on, false once the
	// end is queued. A tenant can have the end of a command reported as often as it
	// likes, by reading the output again.
	known map[string]bool
}

// maxKnownCommands bounds them: more than those that a container knows and those
// that may be recorded as running.
const maxKnownCommands = 4 * MaxOpenCommands

// useKey names an allowance.
type useKey struct{ claim, subject string }

// limits decide what is recorded.
type limits struct {
	mu       sync.Mutex
	uses     map[useKey]*allowance
	commands map[commandKey]bool // left out, and running
}

// take reports whether a use is recorded, and how many before it were not. One that
// is not is counted.
func (l *limits) take(claim, subject string, now time.Time) (omitted int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(claim, subject)
	if a.full.Before(now) {
		a.full = now
	}
	if a.full.Sub(now) > (useBurst-1)*useInterval {
		a.omitted++
		return 0, false
	}
	a.full = a.full.Add(useInterval)
	omitted, a.omitted = a.omitted, 0
	return omitted, true
}

// omit counts uses that were to be recorded and are not.
func (l *limits) omit(claim, subject string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(claim, subject).omitted += n
}

func (l *limits) of(claim, subject string) *allowance {
	k := useKey{claim, subject}
	a := l.uses[k]
	if a == nil {
		if l.uses == nil {
			l.uses = map[useKey]*allowance{}
		}
		a = new(allowance)
		l.uses[k] = a
	}
	return a
}

// leaveOut remembers a command that is not recorded.
func (l *limits) leaveOut(k commandKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commands == nil {
		l.commands = map[commandKey]bool{}
	}
	if len(l.commands) < maxOmittedCommands {
		l.commands[k] = true
	}
}

// isLeftOut reports whether a command was left out, and forgets it.
func (l *limits) isLeftOut(k commandKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ok := l.commands[k]
	delete(l.commands, k)
	return ok
}

// setRecorded remembers that the start of a command is recorded.
func (l *limits) setRecorded(k commandKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.commands, k) // an earlier one with the same ID
	l.setKnown(k, true)
}

// isRecorded reports whether the start of a command is recorded and its end is not
// queued. It does not count the use, which is no new one.
func (l *limits) isRecorded(k commandKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(k.claim, activity.ExecSubject)
	if a.known[k.id] {
		a.omitted--
	}
	return a.known[k.id]
}

// setEnded remembers that the end of a command is queued.
func (l *limits) setEnded(k commandKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setKnown(k, false)
}

// isEnded reports whether the end of a command is queued.
func (l *limits) isEnded(k commandKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	running, isKnown := l.of(k.claim, activity.ExecSubject).known[k.id]
	return isKnown && !running
}

// setKnown remembers a command, and forgets another one if there are too many. The
// caller holds mu.
func (l *limits) setKnown(k commandKey, running bool) {
	a := l.of(k.claim, activity.ExecSubject)
	if a.known == nil {
		a.known = map[string]bool{}
	}
	delete(a.known, k.id)
	for id := range a.known {
		if len(a.known) < maxKnownCommands {
			break
		}
		delete(a.known, id)
	}
	a.known[k.id] = running
}

// forget removes the allowances of claims that do nothing.
func (l *limits) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	live := map[string]bool{}
	for k, a := range l.uses {
		idle := now.Sub(a.full)
		if idle > forgetLostAfter || idle > forgetAfter && a.omitted == 0 {
			delete(l.uses, k)
		} else if k.subject == activity.ExecSubject {
			live[k.claim] = true
		}
	}
	for k := range l.commands {
		if !live[k.claim] {
			delete(l.commands, k)
		}
	}
}
