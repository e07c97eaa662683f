package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/memory"
)

// A change that is requested again changes nothing, and has the result of the first
// one. Of several at once, one changes something. A request of another claim is
// another one, and one that failed has changed nothing.
func memoryRequests(t *testing.T, s Store) {
	putShared(t, s, web, false)
	ada, bob := claimOn(t, s, web, "ada"), claimOn(t, s, web, "bob")
	none := int64(0)
	put := putMemory(ada, memory.Claim, "k", "1")
	put.Request, put.IfVersion = "put", &none
	results := make([]memory.Changed, 8)
	var all errgroup.Group
	for i := range results {
		all.Go(func() (err error) {
			results[i], err = s.ChangeMemory(t.Context(), put)
			return err
		})
	}
	require.NoError(t, all.Wait())
	for _, r := range results {
		require.Equal(t, results[0].Item.Version, r.Item.Version)
		require.True(t, results[0].Item.UpdatedAt.Equal(r.Item.UpdatedAt))
		require.False(t, r.Existed)
	}
	other := putMemory(bob, memory.Claim, "k", "2")
	other.Request = "put"
	mustPut(t, s, other)
	require.Equal(t, "2", read(t, s, bob, memory.Claim, "k"))

	gone := memory.Change{Claim: ada.ID, Level: memory.Claim, Key: "k", Request: "delete", Quota: wide}
	for range 3 {
		r, err := s.ChangeMemory(t.Context(), gone)
		require.NoError(t, err)
		require.True(t, r.Existed)
		mustPut(t, s, putMemory(ada, memory.Claim, "k", "3"))
	}
	another := putMemory(ada, memory.Claim, "k", "1")
	another.Request, another.IfVersion = "put", &none
	for name, change := range map[string]func(c *memory.Change){
		"a deletion": func(c *memory.Change) { c.Value = nil }, "a value": func(c *memory.Change) { c.Value = []byte("5") },
		"a key": func(c *memory.Change) { c.Key = "l" }, "a level": func(c *memory.Change) { c.Level = memory.Tenant },
		"a condition": func(c *memory.Change) { c.IfVersion = nil },
	} {
		c := another
		change(&c)
		_, err := s.ChangeMemory(t.Context(), c)
		require.ErrorIs(t, err, memory.ErrOtherRequest, "it has the ID of another request: %s", name)
	}
	require.Equal(t, "3", read(t, s, ada, memory.Claim, "k"))
	mustPut(t, s, another)
	require.Equal(t, "3", read(t, s, ada, memory.Claim, "k"))

	failed := putMemory(ada, memory.Claim, "k", "4")
	failed.Request, failed.IfVersion = "failed", &none
	for range 2 {
		_, err := s.ChangeMemory(t.Context(), failed)
		require.Error(t, err)
	}
	failed.IfVersion = nil
	mustPut(t, s, failed)
	require.Equal(t, "4", read(t, s, ada, memory.Claim, "k"))
}

// A deletion that is requested several times at once is one, also where there is
// nothing to delete: then no row of the memory orders them.
func memoryRequestsAtOnce(t *testing.T, s Store) {
	putShared(t, s, web, true)
	ada := claimOn(t, s, web, "ada")
	for _, level := range []memory.Level{memory.Claim, memory.Tenant, memory.Workload} {
		for n := range 10 {
			gone := memory.Change{Claim: ada.ID, Level: level, Key: "k", Request: fmt.Sprint(level, n), Quota: wide}
			var all errgroup.Group
			for range 8 {
				all.Go(func() error {
					r, err := s.ChangeMemory(t.Context(), gone)
					if err == nil && r.Existed {
						err = errors.New("something was deleted")
					}
					return err
				})
			}
			require.NoError(t, all.Wait(), level)
		}
	}
}
