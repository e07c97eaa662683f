package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
)

var wide = memory.Quota{Keys: 100, Bytes: 1 << 20}

// putMemory returns the put of a value under a key of a claim.
func putMemory(c claim.Claim, level memory.Level, key, value string) memory.Change {
	return memory.Change{Claim: c.ID, Level: level, Key: key, Value: json.RawMessage(value), Quota: wide}
}

// mustPut puts a value and returns its version.
func mustPut(t *testing.T, s Store, c memory.Change) int64 {
	t.Helper()
	done, err := s.ChangeMemory(t.Context(), c)
	require.NoError(t, err)
	require.Positive(t, done.Item.Version)
	return done.Item.Version
}

// read returns a value, "" for none.
func read(t *testing.T, s Store, c claim.Claim, level memory.Level, key string) string {
	t.Helper()
	v, err := s.MemoryValue(t.Context(), c.ID, level, key)
	if errors.Is(err, memory.ErrNotFound) {
		return ""
	}
	require.NoError(t, err)
	return string(v.Value)
}

// keys lists the keys of a level.
func keys(t *testing.T, s Store, c claim.Claim, level memory.Level, prefix, after string, limit int) string {
	t.Helper()
	items, err := s.MemoryItems(t.Context(), c.ID, level, prefix, after, limit)
	require.NoError(t, err)
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.Key
		require.Positive(t, item.Bytes)
		require.Positive(t, item.Version)
		require.Equal(t, level, item.Level)
	}
	return strings.Join(names, " ")
}

// putShared puts the record of a workload whose memory is shared or not.
func putShared(t *testing.T, s Store, id string, shared bool) {
	t.Helper()
	r, err := s.Workload(t.Context(), id)
	if err != nil {
		require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
		r = pool.Record{ID: id, Revision: rev, MaxSize: 1}
	}
	r.SharedMemory = shared
	require.NoError(t, s.PutWorkload(t.Context(), r))
	r, err = s.Workload(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, shared, r.SharedMemory)
}

// claimOn adds an active claim of a tenant on a workload.
func claimOn(t *testing.T, s Store, workload, tenant string) claim.Claim {
	t.Helper()
	PutWorkloads(t, s, workload)
	id := newID()
	require.NoError(t, s.AddContainer(t.Context(), pool.Container{ID: id, Workload: workload, Revision: rev}, unlimited))
	mustUpdateContainer(t, s, idleTransition(id, ""))
	r := newReservation(tenant)
	r.Workload = workload
	c, err := s.Reserve(t.Context(), r)
	require.NoError(t, err)
	return mustUpdateClaim(t, s, activeTransition(c.ID))
}

// endClaim releases a claim and destroys its container.
func endClaim(t *testing.T, s Store, c claim.Claim) {
	t.Helper()
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	mustUpdateContainer(t, s, destroyingTransition(c.Container))
	mustUpdateContainer(t, s, destroyedTransition(c.Container))
}

// Each level has its own values, and no claim reads those of another claim,
// another tenant or another workload, whatever its names are.
func memoryLevels(t *testing.T, s Store) {
	putShared(t, s, web, true)
	putShared(t, s, "web/ann", true)
	putShared(t, s, "private", false)
	ann, bob := claimOn(t, s, web, "ann"), claimOn(t, s, web, "bob")
	tricky := []claim.Claim{
		claimOn(t, s, web, "ann/"+ann.ID), claimOn(t, s, "web/ann", "ann"), claimOn(t, s, web, ann.ID), claimOn(t, s, web, "an"),
		claimOn(t, s, web, "ann\x1f"), claimOn(t, s, "private", "ann"), claimOn(t, s, web, "workload"), claimOn(t, s, web, "%"),
	}
	for _, level := range memory.Levels() {
		mustPut(t, s, putMemory(ann, level, "k", `"`+string(level)+`"`))
	}
	for _, level := range memory.Levels() {
		require.Equal(t, `"`+string(level)+`"`, read(t, s, ann, level, "k"))
	}
	require.Equal(t, `"workload"`, read(t, s, bob, memory.Workload, "k"))
	for _, c := range append(tricky, bob) {
		for _, level := range []memory.Level{memory.Claim, memory.Tenant} {
			require.Empty(t, read(t, s, c, level, "k"), "%s of %s", level, c.Tenant)
			require.Empty(t, keys(t, s, c, level, "", "", 10))
			mustPut(t, s, putMemory(c, level, "k", `"of another"`))
			_, err := s.ChangeMemory(t.Context(), memory.Change{Claim: c.ID, Level: level, Key: "k"})
			require.NoError(t, err)
		}
	}
	require.Empty(t, read(t, s, tricky[1], memory.Workload, "k"))
	for _, level := range memory.Levels() {
		require.Equal(t, `"`+string(level)+`"`, read(t, s, ann, level, "k"))
	}

	private := tricky[5]
	_, err := s.MemoryValue(t.Context(), private.ID, memory.Workload, "k")
	require.ErrorIs(t, err, memory.ErrNotShared)
	_, err = s.MemoryItems(t.Context(), private.ID, memory.Workload, "", "", 10)
	require.ErrorIs(t, err, memory.ErrNotShared)
	_, err = s.ChangeMemory(t.Context(), putMemory(private, memory.Workload, "k", "1"))
	require.ErrorIs(t, err, memory.ErrNotShared)
	_, err = s.ChangeMemory(t.Context(), memory.Change{Claim: "unknown\x00", Level: memory.Claim, Key: "k"})
	require.ErrorIs(t, err, claim.ErrClaimNotFound)
	_, err = s.MemoryItems(t.Context(), "unknown", memory.Claim, "", "", 10)
	require.ErrorIs(t, err, claim.ErrClaimNotFound)
}

// A condition is met by its version only, and no version occurs twice.
func memoryVersions(t *testing.T, s Store) {
	putShared(t, s, web, true)
	c := claimOn(t, s, web, "ann")
	for _, level := range memory.Levels() {
		change := func(value string, version int64) error {
			m := putMemory(c, level, "k", value)
			if value == "" {
				m.Value = nil
			}
			m.IfVersion = &version
			_, err := s.ChangeMemory(t.Context(), m)
			return err
		}
		conflict := func(err error, version int64) {
			t.Helper()
			var e *memory.VersionError
			require.ErrorAs(t, err, &e)
			require.Equal(t, version, e.Version)
		}
		conflict(change("1", 7), 0)
		conflict(change("1", memory.AnyVersion), 0)
		conflict(change("", 7), 0)
		require.NoError(t, change("", 0), "there is none to delete")
		require.NoError(t, change("1", 0))
		v, err := s.MemoryValue(t.Context(), c.ID, level, "k")
		require.NoError(t, err)
		first := v.Version
		conflict(change("2", 0), first)
		conflict(change("2", first+1), first)
		conflict(change("", 0), first)
		require.Equal(t, "1", read(t, s, c, level, "k"))
		require.NoError(t, change("2", first))
		conflict(change("3", first), first+1)
		require.NoError(t, change("3", memory.AnyVersion))
		require.NoError(t, change("", first+2))
		require.Empty(t, read(t, s, c, level, "k"))
		require.Greater(t, mustPut(t, s, putMemory(c, level, "k", "4")), first+2, "not a version of before")
	}
}

// Of concurrent changes from one version one succeeds, and no increment is lost.
func memoryRace(t *testing.T, s Store) {
	putShared(t, s, web, true)
	const tenants, increments = 8, 10
	var claims []claim.Claim
	for i := range tenants {
		claims = append(claims, claimOn(t, s, web, fmt.Sprint("tenant", i)))
	}
	var conflicts atomic.Int64
	var mu sync.Mutex // guards won
	won := map[int64]int64{}
	var g errgroup.Group
	for _, c := range claims {
		g.Go(func() error {
			for range increments {
				for done := false; !done; {
					var n, version int64
					v, err := s.MemoryValue(t.Context(), c.ID, memory.Workload, "n")
					if err == nil {
						version = v.Version
						err = json.Unmarshal(v.Value, &n)
					}
					if err != nil && !errors.Is(err, memory.ErrNotFound) {
						return err
					}
					m := putMemory(c, memory.Workload, "n", fmt.Sprint(n+1))
					m.IfVersion = &version
					_, err = s.ChangeMemory(t.Context(), m)
					if conflict := new(memory.VersionError); errors.As(err, &conflict) {
						conflicts.Add(1)
						continue
					}
					if err != nil {
						return err
					}
					mu.Lock()
					won[version]++
					mu.Unlock()
					done = true
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.Equal(t, fmt.Sprint(tenants*increments), read(t, s, claims[0], memory.Workload, "n"))
	for version, winners := range won {
		require.EqualValues(t, 1, winners, "version %d", version)
	}
	t.Log("conflicts:", conflicts.Load())
}

// A quota holds exactly, whatever is put at once, and a value that shrinks is
// never refused.
func memoryQuota(t *testing.T, s Store) {
	putShared(t, s, web, false)
	c := claimOn(t, s, web, "ann")
	quota := memory.Quota{Keys: 10, Bytes: 100}
	put := func(key, value string, q memory.Quota) error {
		m := putMemory(c, memory.Claim, key, value)
		m.Quota = q
		_, err := s.ChangeMemory(t.Context(), m)
		if e := new(memory.QuotaError); errors.As(err, &e) {
			require.Equal(t, memory.QuotaError{Level: memory.Claim, Quota: q}, *e)
			return e
		}
		require.NoError(t, err)
		return nil
	}
	var accepted atomic.Int64
	var g errgroup.Group
	for i := range 30 {
		g.Go(func() error {
			if put(fmt.Sprintf("k%02d", i), "1", quota) == nil {
				accepted.Add(1)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.EqualValues(t, 10, accepted.Load())
	all := strings.Fields(keys(t, s, c, memory.Claim, "", "", 100))
	require.Len(t, all, 10)

	// 10 keys of 3 bytes with values of 1 byte: 60 are left.
	accepted.Store(0)
	for _, key := range all {
		g.Go(func() error {
			if put(key, `"34567890"`, quota) == nil { // 9 more each
				accepted.Add(1)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.EqualValues(t, 6, accepted.Load())
	sum := 0
	for _, key := range all {
		sum += len(key) + len(read(t, s, c, memory.Claim, key))
	}
	require.Equal(t, 94, sum)
	small := memory.Quota{Keys: 5, Bytes: 50}
	require.Error(t, put("new", "1", small))
	for _, key := range all {
		require.NoError(t, put(key, "2", small), "it does not grow")
	}
	require.NoError(t, put(all[0], `"345678901"`, memory.Quota{Keys: 5, Bytes: 50}))
	require.Error(t, put(all[0], `"3456789012"`, memory.Quota{Keys: 5, Bytes: 50}))
	for _, key := range all {
		_, err := s.ChangeMemory(t.Context(), memory.Change{Claim: c.ID, Level: memory.Claim, Key: key})
		require.NoError(t, err)
	}
	usage, err := s.MemoryUsage(t.Context())
	require.NoError(t, err)
	require.Equal(t, memory.Usage{Scopes: 1}, usage[memory.Claim])
	require.NoError(t, put("x", `"`+strings.Repeat("y", 97)+`"`, quota), "all of it")
}

// Keys are listed in the order of their bytes, with a prefix that is no pattern.
func memoryLists(t *testing.T, s Store) {
	putShared(t, s, web, false)
	c := claimOn(t, s, web, "ann")
	require.Empty(t, keys(t, s, c, memory.Claim, "", "", 10))
	for _, key := range []string{"b", "a/2", "a/1", "A", "é", "e\u0301", "a%", "a_x", "日本", "hook:1:execution"} {
		mustPut(t, s, putMemory(c, memory.Claim, key, `{"a":1e999,"a":"\u0000"}`))
		require.Equal(t, `{"a":1e999,"a":"\u0000"}`, read(t, s, c, memory.Claim, key))
	}
	require.Equal(t, "A a% a/1 a/2 a_x b e\u0301 hook:1:execution é 日本", keys(t, s, c, memory.Claim, "", "", 100))
	require.Equal(t, "a% a/1", keys(t, s, c, memory.Claim, "", "A", 2))
	require.Equal(t, "a/2 a_x", keys(t, s, c, memory.Claim, "", "a/1", 2))
	require.Equal(t, "a/1 a/2", keys(t, s, c, memory.Claim, "a/", "", 100))
	require.Equal(t, "a/2", keys(t, s, c, memory.Claim, "a/", "a/1", 100))
	require.Equal(t, "a%", keys(t, s, c, memory.Claim, "a%", "", 100))
	require.Equal(t, "a_x", keys(t, s, c, memory.Claim, "a_", "", 100))
	require.Equal(t, "日本", keys(t, s, c, memory.Claim, "日", "", 100))
	require.Empty(t, keys(t, s, c, memory.Claim, "nothing", "", 100))
}
