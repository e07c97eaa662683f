package main

import (
	"sync"

	"github.com/hostler/hostler/runtime/shim/proctree"
)

// guests are the sessions whose other end has proven itself.
type guests struct {
	// mu guards what follows.
	mu      sync.Mutex
	present map[*session]proctree.ID // the process at the other end
}

func newGuests() *guests { return &guests{present: make(map[*session]proctree.ID)} }

func (g *guests) enter(s *session, peer proctree.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.present[s] = peer
}

func (g *guests) leave(s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.present, s)
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
