package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/jsonvalue"
)

// calls is a store that records the changes that reach it.
type calls struct {
	Store
	changes []Change
	ends    atomic.Int64
	sweeps  atomic.Int64
	more    int64 // removals that report more
	fails   atomic.Bool
	next    atomic.Int64 // when something is due
	remove  func()       // is called by removals; optional
}

func (s *calls) ChangeMemory(_ context.Context, c Change) (Changed, error) {
	s.changes = append(s.changes, c)
	return Changed{Item: Item{Key: c.Key}}, nil
}

func (s *calls) MemoryItems(context.Context, string, Level, string, string, int) ([]Item, error) {
	return nil, nil
}

func (s *calls) EndMemory(context.Context) error {
	s.ends.Add(1)
	return nil
}

func (s *calls) NextMemoryEnd(_ context.Context, after time.Time) (time.Time, error) {
	if next := s.next.Load(); next > after.UnixNano() {
		return time.Unix(0, next), nil
	}
	return time.Time{}, nil
}

func (s *calls) RemoveMemory(context.Context) (bool, error) {
	if s.remove != nil {
		s.remove()
	}
	if n := s.sweeps.Add(1); !s.fails.Load() {
		return n <= s.more, nil
	}
	return false, errors.New("the disk is full")
}

func newTestService() (*Service, *calls) {
	s := new(calls)
	return New(s, slog.New(slog.DiscardHandler)), s
}

// Keys are text that every database, URL and terminal keeps as it is.
func TestKeys(t *testing.T) {
	for _, key := range []string{
		"a", "a/b/c", "%2F", "50%", "...", "a..b", ".a", "a b", " ", "hook:7:execution", "ключ", "e\u0301", "\u202e", strings.Repeat("日", MaxKey), "a?b#c", `\`, "+",
	} {
		require.NoError(t, checkKey(key), "%q", key)
	}
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "./a", "a/../b", "\x00", "a\nb", "\x7f", "\u0085", "\xff", "a\xc3", strings.Repeat("é", MaxKey+1), strings.Repeat("a", 1<<20),
	} {
		require.ErrorIs(t, checkKey(key), ErrInvalid, "%q", key)
	}
}

// A value is any JSON, kept as it is but for the space between its parts, and no
// error quotes it.
func TestValues(t *testing.T) {
	deep := strings.Repeat("[", jsonvalue.MaxDepth) + strings.Repeat("]", jsonvalue.MaxDepth)
	long := `"` + strings.Repeat("x", MaxValue-2) + `"`
	for given, want := range map[string]string{
		` { "a" : [ 1 , 2 ] } ` + "\n":   `{"a":[1,2]}`,
		"null":                           "null",
		`{"a":1,"a":2}`:                  `{"a":1,"a":2}`,
		"1e1000099":                      "1e1000099",
		"123456789012345678901234567890": "123456789012345678901234567890",
		`"<\u0000\ud800 \u2028 >"`:       `"<\u0000\ud800 \u2028 >"`,
		deep:                             deep,
		long:                             long,
	} {
		value, err := compactValue([]byte(given))
		require.NoError(t, err)
		require.Equal(t, want, string(value))
	}
	for _, given := range []string{
		"", " ", "secret", "NaN", "Infinity", "-", "01", "{", `{"secret"}`, `'secret'`, "1 2", "\"\x00\"", "\"\xff\"", "\ufeff1", `"a` + "\n" + `b"`, "[" + deep + "]", "/* secret */ 1",
	} {
		_, err := compactValue([]byte(given))
		require.ErrorIs(t, err, ErrInvalid, "%.40q", given)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "'")
	}
	_, err := compactValue([]byte(long + " "))
	require.ErrorIs(t, err, ErrTooLarge)
	value, err := compactValue([]byte("1"))
	require.NoError(t, err)
	require.NotNil(t, value)
}

// Levels have the names of other systems too.
func TestLevels(t *testing.T) {
	for name, want := range map[string]Level{
		"": Claim, "claim": Claim, "agent": Claim, "tenant": Tenant, "swarm": Tenant, "workload": Workload, "project": Workload,
	} {
		level, err := ParseLevel(name)
		require.NoError(t, err)
		require.Equal(t, want, level)
		require.Positive(t, quotas[level].Keys)
		require.Greater(t, quotas[level].Bytes, int64(MaxValue))
	}
	for _, name := range []string{"Claim", "claim ", "pool", "\x00"} {
		_, err := ParseLevel(name)
		require.ErrorIs(t, err, ErrInvalid)
	}
}

// A request that is not valid reaches no store and costs a claim nothing.
func TestInvalidRequests(t *testing.T) {
	s, store := newTestService()
	ctx, below := t.Context(), int64(-2)
	for range 2 * changeBurst {
		for _, r := range []PutRequest{
			{Key: "", Value: json.RawMessage("1")},
			{Key: "k", Level: "pool", Value: json.RawMessage("1")},
			{Key: "k", Value: json.RawMessage("x")},
			{Key: "k"},
			{Key: "k", Value: json.RawMessage("1"), IfVersion: &below},
			{Key: "k", Value: json.RawMessage(strings.Repeat(" ", MaxValue+1))},
		} {
			_, err := s.Put(ctx, "c", r)
			require.True(t, errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge), "%v", err)
		}
		_, err := s.Delete(ctx, "c", DeleteRequest{Key: ".."})
		require.ErrorIs(t, err, ErrInvalid)
		_, err = s.Get(ctx, "c", GetRequest{Key: "a//b"})
		require.ErrorIs(t, err, ErrInvalid)
		_, err = s.Get(ctx, "c", GetRequest{Key: "a", Level: "x"})
		require.ErrorIs(t, err, ErrInvalid)
		for _, r := range []ListRequest{{Prefix: "\x00"}, {After: "\xff"}, {Level: "x"}, {Prefix: strings.Repeat("a", MaxKey+1)}} {
			_, err = s.List(ctx, "c", r)
			require.ErrorIs(t, err, ErrInvalid)
		}
	}
	require.Empty(t, store.changes)
	_, err := s.Put(ctx, "c", PutRequest{Key: "k", Level: "swarm", Value: json.RawMessage(" 1 ")})
	require.NoError(t, err)
	require.Equal(t, []Change{{Claim: "c", Level: Tenant, Key: "k", Value: json.RawMessage("1"), Quota: quotas[Tenant]}}, store.changes)
	page, err := s.List(ctx, "c", ListRequest{Prefix: "a/", Limit: -1})
	require.NoError(t, err)
	require.NotNil(t, page.Items)
}

// A claim changes 50 values at once and then 20 a second, whatever other claims do,
// and what it is refused costs it nothing.
func TestChangesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newTestService()
		change := func(claim string, i int) error {
			if i%2 == 0 {
				_, err := s.Put(t.Context(), claim, PutRequest{Key: "k", Value: json.RawMessage("1")})
				return err
			}
			_, err := s.Delete(t.Context(), claim, DeleteRequest{Key: "k"})
			return err
		}
		burst := func(claim string) (accepted int) {
			for i := range 10 * changeBurst {
				if err := change(claim, i); err == nil {
					accepted++
				} else {
					require.ErrorIs(t, err, ErrRate)
				}
			}
			return accepted
		}
		require.Equal(t, 50, burst("a"))
		require.Equal(t, 50, burst("b"))
		require.Zero(t, burst("a"))
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, 20, burst("a"))
		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, 50, burst("a"))
		require.Len(t, store.changes, 170)

		for i := range 10 * limiterMinSweep {
			require.NoError(t, change(fmt.Sprint("claim ", i), i))
			<-time.After(time.Millisecond)
		}
		require.LessOrEqual(t, len(s.limiter.full), 2*limiterMinSweep, "claims that write no more are forgotten")
	})
}

// Values that have ended are removed at once as long as there are more, soon after a
// change and when the next one is due, and after a failure a minute later. Otherwise
// nothing is read.
func TestRunSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newTestService()
		store.more = 5
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		require.EqualValues(t, 6, store.sweeps.Load())
		require.EqualValues(t, 1, store.ends.Load())
		<-time.After(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 6, store.sweeps.Load())
		store.next.Store(time.Now().Add(time.Hour).UnixNano())
		s.Changed()
		<-time.After(sweepDelay + time.Second)
		synctest.Wait()
		require.EqualValues(t, 7, store.sweeps.Load())
		store.fails.Store(true)
		<-time.After(time.Hour - sweepDelay)
		synctest.Wait()
		require.EqualValues(t, 8, store.sweeps.Load())
		<-time.After(sweepDelay)
		synctest.Wait()
		require.EqualValues(t, 9, store.sweeps.Load())
		cancel()
		require.NoError(t, <-done)
	})
}

// What becomes due while a sweep runs is found by another one.
func TestSweepMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newTestService()
		store.remove = func() { <-time.After(5 * time.Second) }
		store.next.Store(time.Now().Add(2 * time.Second).UnixNano())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		<-time.After(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 2, store.ends.Load())
		cancel()
		require.NoError(t, <-done)
	})
}

// Changes that are not the same have different digests, also that to null and a
// deletion.
func TestDigest(t *testing.T) {
	none, one := int64(0), int64(1)
	seen := map[string]Change{}
	for _, c := range []Change{
		{Level: Claim, Key: "k"}, {Level: Tenant, Key: "k"}, {Level: Claim, Key: "l"}, {Level: Claim, Key: "k", Value: json.RawMessage("null")},
		{Level: Claim, Key: "k", Value: json.RawMessage("1")}, {Level: Claim, Key: "k", IfVersion: &none}, {Level: Claim, Key: "k", IfVersion: &one},
	} {
		require.NotContains(t, seen, c.Digest(), "%+v", c)
		seen[c.Digest()] = c
	}
	require.Equal(t, Change{Claim: "a", Request: "r", Key: "k"}.Digest(), Change{Claim: "b", Request: "s", Key: "k"}.Digest())
}
