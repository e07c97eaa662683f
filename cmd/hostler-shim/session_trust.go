package main

import (
	"sync"

	"github.com/hostler/hostler/runtime/shim/proctree"
)

// sessions are the authenticated sessions.
//
// While an engine starts the bridge of a session, the bridge runs as root, and
// any process of root may set its limits, its priority and the times of its
// directory in /proc. A tenant could leave a message to the next one there,
// unless the bridge is killed. So a session is trusted only if its bridge was
// started while no process of the workload was running, and does not have the
// workload's user.
type sessions struct {
	protected bool // bridges have a user of their own

	// mu guards the fields below.
	mu      sync.Mutex
	byConn  map[*session]sessionState
	isQuiet bool // no process of the workload is running
}

// sessionState describes one session.
type sessionState struct {
	bridge  proctree.ID // the process at the other end
	trusted bool
	ended   bool // its bridge is untrusted and will be killed
}

func newSessions(protected bool) *sessions {
	return &sessions{protected: protected, byConn: make(map[*session]sessionState)}
}

func (all *sessions) add(s *session, bridge proctree.ID) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.byConn[s] = sessionState{bridge: bridge, trusted: all.protected && all.isQuiet}
}

func (all *sessions) remove(s *session) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.byConn, s)
}

// bridges returns the processes that carry a session. They belong to no command
// and must not be killed with the commands.
func (all *sessions) bridges() map[proctree.ID]bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	found := make(map[proctree.ID]bool, len(all.byConn))
	for _, state := range all.byConn {
		if !state.ended {
			found[state.bridge] = true
		}
	}
	return found
}

// setQuiet records whether no process of the workload is running.
func (all *sessions) setQuiet(isQuiet bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.isQuiet = isQuiet
}

// trustAll marks the current sessions as trusted, because there was no tenant yet.
func (all *sessions) trustAll() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for s, state := range all.byConn {
		state.trusted = all.protected
		all.byConn[s] = state
	}
}

// endUntrusted marks the bridges that a tenant may have changed as ended: from
// now on killAll kills them with the processes of the workload. Their sessions
// stay open until closeEnded, so that a response can still be sent.
func (all *sessions) endUntrusted() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for s, state := range all.byConn {
		state.ended = !state.trusted
		all.byConn[s] = state
	}
}

// closeEnded closes the sessions whose bridges have ended. A server opens
// another session when it needs one.
func (all *sessions) closeEnded() {
	all.mu.Lock()
	var ended []*session
	for s, state := range all.byConn {
		if state.ended {
			ended = append(ended, s)
		}
	}
	all.mu.Unlock()
	for _, s := range ended {
		_ = s.conn.Close() // never fails
	}
}
