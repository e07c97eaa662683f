package quota

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fixedStore has overrides that a test changes.
type fixedStore struct {
	Store
	version   int64
	overrides []Override
	err       error
	reads     int
}

func (s *fixedStore) QuotaVersion(ctx context.Context) (int64, error) {
	return s.version, errors.Join(s.err, ctx.Err())
}

func (s *fixedStore) QuotaOverrides(context.Context) ([]Override, error) {
	s.reads++
	return s.overrides, nil
}

func perSecond(n int64) Limits { return Limits{RequestsPerSecond: &n} }

// allowed counts how many of a number of requests are permitted at once.
func allowed(t *testing.T, s *Service, from Sender, n int) (permitted int) {
	t.Helper()
	for range n {
		err := s.AllowRequest(t.Context(), from)
		if err == nil {
			permitted++
			continue
		}
		exceeded, ok := errors.AsType[*ExceededError](err)
		require.True(t, ok)
		require.Equal(t, Requests, exceeded.Kind)
		require.Positive(t, exceeded.RetryAfter)
	}
	return permitted
}

// A sender may send twice its limit at once, and then its limit each second. What is
// refused costs nothing.
func TestRequestsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		s := New(&fixedStore{}, Defaults{Key: perSecond(10), Tenant: perSecond(15)}, func(*ExceededError) { refused++ })
		require.Equal(t, 20, allowed(t, s, Sender{Key: "key:a"}, 100))
		require.Equal(t, 80, refused)
		require.Equal(t, 20, allowed(t, s, Sender{Key: "key:b"}, 100), "each key has its own")
		<-time.After(time.Second)
		require.Equal(t, 10, allowed(t, s, Sender{Key: "key:a"}, 100))
		// Two keys of a tenant share the tenant's limit, and what that refuses does not
		// count for the key.
		require.Equal(t, 20, allowed(t, s, Sender{Key: "key:c", Tenant: "t"}, 100))
		require.Equal(t, 10, allowed(t, s, Sender{Key: "key:d", Tenant: "t"}, 100))
		require.Equal(t, 10, allowed(t, s, Sender{Key: "key:d"}, 100))
		require.Equal(t, 50, allowed(t, s, Sender{}, 50), "a client without a credential has none")
		require.Equal(t, 50, allowed(t, s, Sender{Key: "key:op", IsOperator: true}, 50))
	})
}

// An override holds within 2 s, also for an operator, and the former one while the
// database is unavailable. A client that disconnects does not keep it from being read.
func TestRequestsFollowOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fixedStore{}
		s := New(store, Defaults{Key: perSecond(10)}, func(*ExceededError) {})
		op := Sender{Key: "key:op", IsOperator: true}
		require.Equal(t, 50, allowed(t, s, op, 50))
		store.version, store.overrides = 1, []Override{{Scope: Scope{Key, "key:op"}, Limits: perSecond(5)}}
		store.err = errors.New("unavailable")
		<-time.After(2 * time.Second)
		require.Equal(t, 50, allowed(t, s, op, 50))
		store.err = nil
		<-time.After(2 * time.Second)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, s.AllowRequest(gone, op))
		require.Equal(t, 9, allowed(t, s, op, 50))
		reads := store.reads
		<-time.After(time.Hour)
		require.Equal(t, 10, allowed(t, s, op, 50))
		require.Equal(t, reads, store.reads, "what has not changed is not read again")
	})
}

// No sender resets its limit by filling the table, which is bounded.
func TestRequestsOfManySenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&fixedStore{}, Defaults{Key: perSecond(1)}, func(*ExceededError) {})
		me := Sender{Key: "key:me"}
		require.Equal(t, 2, allowed(t, s, me, 10))
		for i := range maxBuckets + 10 {
			_ = s.AllowRequest(t.Context(), Sender{Key: fmt.Sprint("key:", i)}) // it is refused at the end
		}
		require.Len(t, s.requests.buckets, maxBuckets)
		require.Error(t, s.AllowRequest(t.Context(), Sender{Key: "key:new"}), "all are busy")
		require.Zero(t, allowed(t, s, me, 10))
		<-time.After(time.Minute)
		require.Equal(t, 2, allowed(t, s, Sender{Key: "key:new"}, 10))
		require.Len(t, s.requests.buckets, 1)
	})
}
