package client_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/client"
)

func memoryBackend() *apitest.Backend {
	b := apitest.New()
	b.Claims = []claim.Claim{{ID: "claim-1", State: claim.Active}}
	return b
}

// A value comes back as it was put, under any key, and only its version replaces
// it.
func TestMemoryCalls(t *testing.T) {
	c, ctx := serveThrough(t, memoryBackend(), nil), t.Context()
	for _, key := range []string{"plan", "a/b", "%2F", "50% done?", "日本/é"} {
		item, err := c.PutMemory(ctx, "claim-1", "", key, json.RawMessage(`{"n":1e999}`), new(int64))
		require.NoError(t, err)
		require.Equal(t, client.MemoryItem{Key: key, Level: client.MemoryOfClaim, Version: item.Version, Bytes: 11, UpdatedAt: apitest.Time}, item)
		got, err := c.GetMemory(ctx, "claim-1", client.MemoryOfClaim, key)
		require.NoError(t, err)
		require.Equal(t, client.MemoryValue{MemoryItem: item, Value: json.RawMessage(`{"n":1e999}`)}, got)
		_, err = c.PutMemory(ctx, "claim-1", "", key, json.RawMessage("2"), new(int64))
		var refused *client.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, client.CodeVersionConflict, refused.Code)
		require.Equal(t, item.Version, *refused.CurrentVersion)
		_, err = c.DeleteMemory(ctx, "claim-1", "", key, new(int64))
		require.Error(t, err)
		got.Value = nil
		deleted, err := c.DeleteMemory(ctx, "claim-1", "", key, &item.Version)
		require.NoError(t, err)
		require.True(t, deleted.Deleted)
		_, err = c.GetMemory(ctx, "claim-1", client.MemoryOfTenant, key)
		require.ErrorAs(t, err, &refused)
		require.Equal(t, client.CodeMemoryNotFound, refused.Code)
	}
}

// A list has all pages.
func TestMemoryList(t *testing.T) {
	b := memoryBackend()
	c, ctx := serveThrough(t, b, nil), t.Context()
	for i := range 40 {
		_, err := c.PutMemory(ctx, "claim-1", "", fmt.Sprintf("k/%02d", i), json.RawMessage("1"), nil)
		require.NoError(t, err)
	}
	items, err := c.Memory(ctx, "claim-1", client.MemoryFilter{Prefix: "k/", After: "k/09"})
	require.NoError(t, err)
	require.Len(t, items, 30)
	require.Equal(t, "k/10", items[0].Key)
	items, err = c.Memory(ctx, "claim-1", client.MemoryFilter{Limit: 7})
	require.NoError(t, err)
	require.Len(t, items, 7)
}

// A change is requested once: if the response is lost, another program may have
// changed the value since.
func TestMemoryChangesAreNotRetried(t *testing.T) {
	c := serveThrough(t, memoryBackend(), breakFirst(2))
	_, err := c.PutMemory(t.Context(), "claim-1", "", "k", json.RawMessage("1"), nil)
	require.ErrorIs(t, err, client.ErrNoResponse)
	_, err = c.DeleteMemory(t.Context(), "claim-1", "", "k", nil)
	require.ErrorIs(t, err, client.ErrNoResponse)
}
