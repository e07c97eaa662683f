package main

import (
	"slices"
	"sync"
)

// maxUnauthenticated bounds connections that are not authenticated: every
// process that can reach the socket may open one.
const maxUnauthenticated = 16

// unauthenticated are the connections that are not authenticated. The zero
// value is empty.
type unauthenticated struct {
	// mu guards sessions.
	mu       sync.Mutex
	sessions []*session // oldest first
}

// add adds a connection. At the limit it closes the oldest one: a legitimate
// peer authenticates within milliseconds.
func (u *unauthenticated) add(c *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.sessions) >= maxUnauthenticated {
		u.sessions[0].socket.Close()
		u.sessions = slices.Delete(u.sessions, 0, 1)
	}
	u.sessions = append(u.sessions, c)
}

// remove removes a connection that is authenticated or closed.
func (u *unauthenticated) remove(c *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.sessions, c); i >= 0 {
		u.sessions = slices.Delete(u.sessions, i, i+1)
	}
}
