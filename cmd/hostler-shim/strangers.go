package main

import (
	"slices"
	"sync"
)

// maxStrangers bounds connections that have not proven themselves: every process
// that can reach the socket may open one.
const maxStrangers = 16

// strangers are the connections that have not proven themselves. The zero value
// has none.
type strangers struct {
	// mu guards all.
	mu  sync.Mutex
	all []*session // the one that has waited longest first
}

// enter adds one. When there are too many it closes the one that has waited
// longest: one that means it takes milliseconds.
func (s *strangers) enter(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxStrangers {
		s.all[0].socket.Close()
		s.all = slices.Delete(s.all, 0, 1)
	}
	s.all = append(s.all, c)
}

// leave removes one that has proven itself, or has gone.
func (s *strangers) leave(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.all, c); i >= 0 {
		s.all = slices.Delete(s.all, i, i+1)
	}
}
