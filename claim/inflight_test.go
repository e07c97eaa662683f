package claim

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// sharedStore is a store of several servers with one claim.
type sharedStore struct {
	Store
	mu    sync.Mutex // guards the fields below
	c     Claim
	reads int
}

func (s *sharedStore) Self() string { return "here" }

func (s *sharedStore) Claim(context.Context, string) (Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return s.c, nil
}

func (s *sharedStore) set(state State, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c.State, s.c.Owner = state, owner
}

// WaitForPeer returns at once after a notification, also when events were missed, reads
// nothing without one, and leaves nothing in memory.
func TestWaitForPeer(t *testing.T) {
	tests := []struct {
		name string
		end  func(s *Service, db *sharedStore)
		want State
	}{
		{"notified", func(s *Service, db *sharedStore) { db.set(Active, "there"); s.NotifyChanged("k") }, Active},
		{"events missed", func(s *Service, db *sharedStore) { db.set(Active, "there"); s.notifyAll() }, Active},
		{"taken over", func(s *Service, db *sharedStore) { db.set(Pending, "here"); s.NotifyChanged("k") }, Pending},
		{"failed", func(s *Service, db *sharedStore) { db.set(Failed, "there"); s.AbortLocal("k") }, Failed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &sharedStore{c: Claim{ID: "k", State: Pending, Owner: "there"}}
				s := &Service{store: db, subscribers: map[string]chan struct{}{}}
				start := time.Now()
				var g sync.WaitGroup
				pending := db.c
				for range 3 {
					g.Go(func() {
						c, err := s.WaitForPeer(t.Context(), pending)
						if err != nil || c.State != tt.want {
							t.Errorf("WaitForPeer: got %s, %v, want %s", c.State, err, tt.want)
						}
					})
				}
				<-time.After(time.Hour)
				synctest.Wait()
				require.Equal(t, 3, db.reads)
				tt.end(s, db)
				g.Wait()
				require.Equal(t, time.Hour, time.Since(start))
				require.Empty(t, s.subscribers)
			})
		})
	}
}

// A canceled WaitForPeer leaves nothing in memory either.
func TestWaitForPeerCanceled(t *testing.T) {
	db := &sharedStore{c: Claim{ID: "k", State: Releasing, Owner: "there"}}
	s := &Service{store: db, subscribers: map[string]chan struct{}{}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.WaitForPeer(ctx, db.c)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, s.subscribers)
}
