package inside

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/runtime"
)

// heldStore is a database of one server.
type heldStore struct {
	mu      sync.Mutex
	held    []claim.Held
	adopted []claim.Held // held from the next AdoptClaims on
	err     error
	asked   []string // replicas of AdoptClaims
}

func (s *heldStore) HeldClaims(context.Context) ([]claim.Held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, s.err
}

func (s *heldStore) AdoptClaims(_ context.Context, replica string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(len(s.adopted))
	s.held, s.adopted, s.asked = append(s.held, s.adopted...), nil, append(s.asked, replica)
	return n, s.err
}

// sessions are containers whose sessions are open or closed.
type sessions struct {
	mu    sync.Mutex
	open  map[string]int64         // fences by container
	opens map[string][]time.Time   // attempts
	errs  map[string]error         // of the next attempts
	lose  map[string]chan struct{} // closed to lose an open session
}

func (s *sessions) ServeRequests(ctx context.Context, id string, fence int64, handle runtime.RequestHandler) error {
	s.mu.Lock()
	s.opens[id] = append(s.opens[id], time.Now())
	err := s.errs[id]
	lost := make(chan struct{})
	if err == nil {
		s.open[id], s.lose[id] = fence, lost
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, id)
	}()
	handle(ctx, runtime.Request{Name: "hello"}, func(runtime.Response) {})
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-lost:
		return runtime.ErrUnavailable
	}
}

// all returns the containers with an open session, and their fences.
func (s *sessions) all() map[string]int64 {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]int64{}
	for id, fence := range s.open {
		all[id] = fence
	}
	return all
}

func (s *sessions) attempts(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.opens[id])
}

// testKeeper runs a keeper for a test, within synctest.
func testKeeper(t *testing.T, test func(t *testing.T, k *Keeper, store *heldStore, s *sessions)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &heldStore{}
		s := &sessions{open: map[string]int64{}, opens: map[string][]time.Time{}, errs: map[string]error{}, lose: map[string]chan struct{}{}}
		k := NewKeeper(store, s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- k.Run(ctx, newTestService(nil))
		}()
		test(t, k, store, s)
		cancel()
		require.NoError(t, <-ended)
		require.Empty(t, s.all(), "Run has ended")
	})
}

// A session is open from the activation of a claim to its release.
func TestSessionOfClaim(t *testing.T) {
	testKeeper(t, func(t *testing.T, k *Keeper, _ *heldStore, s *sessions) {
		k.Activated(claim.Claim{ID: "c1", Container: "k1", ContainerFence: 5})
		k.Activated(claim.Claim{ID: "c1", Container: "k1", ContainerFence: 5})
		k.Activated(claim.Claim{ID: "c2", Container: "k2", ContainerFence: 6})
		require.Equal(t, map[string]int64{"k1": 5, "k2": 6}, s.all())
		require.Equal(t, 1, s.attempts("k1"))
		k.EventHandlers().On[activity.ClaimReleasing](activity.Event{Claim: "c1"})
		k.EventHandlers().On[activity.ClaimReleased](activity.Event{Claim: "unknown"})
		require.Equal(t, map[string]int64{"k2": 6}, s.all())
		k.Activated(claim.Claim{ID: "c3", Container: "k1", ContainerFence: 9})
		require.Equal(t, map[string]int64{"k1": 9, "k2": 6}, s.all())
	})
}

// A server that starts has the sessions of its claims opened, one after another,
// and none of claims that have ended.
func TestSessionsAreThoseOnRecord(t *testing.T) {
	testKeeper(t, func(t *testing.T, k *Keeper, store *heldStore, s *sessions) {
		k.Activated(claim.Claim{ID: "ended", Container: "k0"})
		for i := range 100 {
			store.held = append(store.held, claim.Held{Claim: fmt.Sprint("c", i), Container: fmt.Sprint("k", i+1), Fence: 1})
		}
		require.NoError(t, k.EventHandlers().Resync(t.Context()))
		require.Less(t, len(s.all()), 10, "not all at once")
		<-time.After(100 * startInterval)
		synctest.Wait()
		require.Len(t, s.all(), 100)
		require.NotContains(t, s.all(), "k0")
		store.err = errors.New("the database is down")
		require.Error(t, k.EventHandlers().Resync(t.Context()))
		require.Len(t, s.all(), 100)
	})
}

// A claim that ends before its session is opened gets none: nothing would end it.
func TestClaimThatHasEnded(t *testing.T) {
	testKeeper(t, func(t *testing.T, k *Keeper, store *heldStore, s *sessions) {
		end := k.EventHandlers().On[activity.ClaimReleasing]
		end(activity.Event{Claim: "c1"})
		k.Activated(claim.Claim{ID: "c1", Container: "k1", ContainerFence: 5})
		require.Empty(t, s.all())
		end(activity.Event{Claim: "c2"}) // while the claims are listed
		store.adopted = []claim.Held{{Claim: "c2", Container: "k2", Fence: 5}, {Claim: "c3", Container: "k3", Fence: 5}}
		require.NoError(t, k.Adopt(t.Context(), "r1"))
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, map[string]int64{"k3": 5}, s.all())
		for i := range 10 * maxEnded {
			end(activity.Event{Claim: fmt.Sprint("old", i)})
		}
		require.LessOrEqual(t, len(k.ended)+len(k.earlier), 2*maxEnded)
	})
}

// A lost session is opened again, less often if it is lost at once.
func TestLostSessionIsOpenedAgain(t *testing.T) {
	testKeeper(t, func(t *testing.T, k *Keeper, _ *heldStore, s *sessions) {
		k.Activated(claim.Claim{ID: "c1", Container: "k1", ContainerFence: 5})
		synctest.Wait()
		for range 3 { // each was open for long
			<-time.After(2 * stableAfter)
			close(s.lose["k1"])
			<-time.After(2 * reopens.Min)
			synctest.Wait()
			require.Contains(t, s.all(), "k1")
		}
		before := s.attempts("k1")
		s.errs["k1"] = runtime.ErrUnresponsive
		close(s.lose["k1"])
		<-time.After(time.Hour)
		synctest.Wait()
		require.Less(t, s.attempts("k1")-before, 120)
		require.Greater(t, s.attempts("k1")-before, 30)
		s.mu.Lock()
		s.errs["k1"] = nil
		s.mu.Unlock()
		<-time.After(2 * reopens.Max)
		synctest.Wait()
		require.Contains(t, s.all(), "k1")
	})
}

// A container that ends each session at once costs few attempts.
func TestSessionThatEndsAtOnce(t *testing.T) {
	testKeeper(t, func(t *testing.T, k *Keeper, _ *heldStore, s *sessions) {
		k.Activated(claim.Claim{ID: "c1", Container: "k1", ContainerFence: 5})
		for end := time.Now().Add(time.Hour); time.Now().Before(end); {
			synctest.Wait()
			s.mu.Lock()
			if _, open := s.open["k1"]; open {
				close(s.lose["k1"])
			}
			s.mu.Unlock()
			<-time.After(50 * time.Millisecond)
		}
		require.Less(t, s.attempts("k1"), 120)
	})
}

// A container of an older protocol, one that this server cannot speak to, one that has
// another claim by now, and one that does not exist any more are not tried again.
func TestContainerWithoutRequests(t *testing.T) {
	for _, err := range []error{runtime.ErrUnsupported, runtime.ErrTooOld, runtime.ErrNewer, runtime.ErrStaleFence, runtime.ErrNotFound} {
		testKeeper(t, func(t *testing.T, k *Keeper, _ *heldStore, s *sessions) {
			s.errs["k1"] = err
			k.Activated(claim.Claim{ID: "c1", Container: "k1", ContainerFence: 5})
			<-time.After(time.Hour)
			synctest.Wait()
			require.Equal(t, 1, s.attempts("k1"))
		})
	}
}

// The leader adopts the claims of servers that are gone, also after an error.
func TestAdoption(t *testing.T) {
	testKeeper(t, func(t *testing.T, k *Keeper, store *heldStore, s *sessions) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		store.err = errors.New("the database is down")
		ended := make(chan error, 1)
		go func() { ended <- k.RunAdoption(ctx) }()
		synctest.Wait()
		store.mu.Lock()
		store.err, store.adopted = nil, []claim.Held{{Claim: "c1", Container: "k1", Fence: 3}}
		store.mu.Unlock()
		<-time.After(adoptInterval + time.Second)
		synctest.Wait()
		require.Equal(t, map[string]int64{"k1": 3}, s.all())
		cancel()
		require.NoError(t, <-ended)
		store.adopted = []claim.Held{{Claim: "c2", Container: "k2", Fence: 3}}
		require.NoError(t, k.Adopt(t.Context(), "r1"))
		<-time.After(time.Second)
		synctest.Wait()
		require.Len(t, s.all(), 2)
		require.Equal(t, "r1", store.asked[len(store.asked)-1])
	})
}
