package claim

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// shared is a database that several servers share, with one claim in it.
type shared struct {
	Store
	mu sync.Mutex // guards c
	c  Claim
}

func (s *shared) Self() string { return "here" }

func (s *shared) Claim(context.Context, string) (Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c, nil
}

func (s *shared) set(state State, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c.State, s.c.Owner = state, owner
}

// Whoever waits for a claim that another server works on learns of its end at
// once when it is heard of, soon when it is not, and leaves nothing in memory.
func TestAwait(t *testing.T) {
	tests := []struct {
		name string
		end  func(s *Service, db *shared)
		want State
		took time.Duration
	}{
		{"heard of", func(s *Service, db *shared) { db.set(Active, "there"); s.Heard("k") }, Active, 0},
		{"not heard of", func(_ *Service, db *shared) { db.set(Active, "there") }, Active, looking},
		{"taken over", func(_ *Service, db *shared) { db.set(Pending, "here") }, Pending, looking},
		{"failed", func(s *Service, db *shared) { db.set(Failed, "there"); s.Ended("k") }, Failed, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &shared{c: Claim{ID: "k", State: Pending, Owner: "there"}}
				s := &Service{store: db, awaited: map[string]chan struct{}{}}
				begin := time.Now()
				var g sync.WaitGroup
				waited := db.c
				for range 3 {
					g.Go(func() {
						c, err := s.Await(t.Context(), waited)
						if err != nil || c.State != tt.want {
							t.Errorf("awaited: got %s, %v, want %s", c.State, err, tt.want)
						}
					})
				}
				synctest.Wait()
				tt.end(s, db)
				g.Wait()
				require.Equal(t, tt.took, time.Since(begin))
				require.Empty(t, s.awaited)
			})
		})
	}
}

// A caller who leaves leaves nothing in memory either.
func TestAwaitLeaves(t *testing.T) {
	db := &shared{c: Claim{ID: "k", State: Releasing, Owner: "there"}}
	s := &Service{store: db, awaited: map[string]chan struct{}{}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Await(ctx, db.c)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, s.awaited)
}
