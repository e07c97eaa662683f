package main

import (
	"sync"
	"time"

	"github.com/hostler/hostler/runtime/shim/proctree"
)

// guests are the sessions that have shown the token.
type guests struct {
	lonely time.Duration
	alone  func() // called when nobody has been there for lonely

	// mu guards what follows.
	mu      sync.Mutex
	present map[*session]proctree.ID // the process at the other end
	timer   *time.Timer
}

func newGuests(lonely time.Duration, alone func()) *guests {
	return &guests{
		lonely: lonely, alone: alone,
		present: make(map[*session]proctree.ID),
		timer:   time.AfterFunc(lonely, alone),
	}
}

func (g *guests) enter(s *session, peer proctree.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.present[s] = peer
	g.timer.Stop()
}

func (g *guests) leave(s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.present, s)
	if len(g.present) == 0 {
		g.timer.Reset(g.lonely)
	}
}

// bridges tells which processes carry a session: no command's, and not to be
// killed with them.
func (g *guests) bridges() map[proctree.ID]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[proctree.ID]bool, len(g.present))
	for _, peer := range g.present {
		all[peer] = true
	}
	return all
}
