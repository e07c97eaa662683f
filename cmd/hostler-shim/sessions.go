package main

import (
	"sync"

	"github.com/hostler/hostler/runtime/shim/proctree"
)

// sessions are the authenticated sessions.
type sessions struct {
	// mu guards peers.
	mu    sync.Mutex
	peers map[*session]proctree.ID // the process at the other end
}

func newSessions() *sessions { return &sessions{peers: make(map[*session]proctree.ID)} }

func (all *sessions) add(s *session, peer proctree.ID) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.peers[s] = peer
}

func (all *sessions) remove(s *session) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.peers, s)
}

// bridges returns the processes that carry a session. They belong to no command
// and must not be killed with the commands.
func (all *sessions) bridges() map[proctree.ID]bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	found := make(map[proctree.ID]bool, len(all.peers))
	for _, peer := range all.peers {
		found[peer] = true
	}
	return found
}
