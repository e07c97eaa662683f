package main

import (
	"slices"
	"sync"
)

// maxUnauthenticated bounds connections that have not proven themselves: every process
// that can reach the socket may open one.
const maxUnauthenticated = 16

// unauthenticated are the connections that have not proven themselves. The zero value
// has none.
type unauthenticated struct {
	// mu guards all.
	mu       sync.Mutex
	sessions []*session // the one that has waited longest first
}

// add adds one. When there are too many it closes the one that has waited
// longest: one that means it takes milliseconds.
func (u *unauthenticated) add(c *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.sessions) >= maxUnauthenticated {
		u.sessions[0].socket.Close()
		u.sessions = slices.Delete(u.sessions, 0, 1)
	}
	u.sessions = append(u.sessions, c)
}

// remove removes one that has proven itself, or has gone.
func (u *unauthenticated) remove(c *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.sessions, c); i >= 0 {
		u.sessions = slices.Delete(u.sessions, i, i+1)
	}
}
