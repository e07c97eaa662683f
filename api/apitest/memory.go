package apitest

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/memory"
)

// memoryStore keeps the values of active claims in a map. Each claim has levels of
// its own.
type memoryStore struct{ *Backend }

func (b *Backend) memory() *memory.Service {
	return memory.New(memoryStore{b}, slog.New(slog.DiscardHandler))
}

// item returns the values of a level of an active claim. The caller holds the lock.
func (b memoryStore) items(claimID string, level memory.Level) (map[string]memory.Value, error) {
	i := slices.IndexFunc(b.Claims, func(c claim.Claim) bool { return c.ID == claimID })
	switch {
	case b.Errors["memory"] != nil:
		return nil, b.Errors["memory"]
	case i < 0:
		return nil, claim.ErrClaimNotFound
	case b.Claims[i].State != claim.Active:
		return nil, claim.ErrNotActive
	case level == memory.Workload:
		return nil, memory.ErrNotShared
	}
	scope := claimID + " " + string(level)
	if b.Values[scope] == nil {
		b.Values[scope] = map[string]memory.Value{}
	}
	return b.Values[scope], nil
}

func (b memoryStore) ChangeMemory(_ context.Context, c memory.Change) (memory.Changed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, err := b.items(c.Claim, c.Level)
	if err != nil {
		return memory.Changed{}, err
	}
	before, existed := items[c.Key]
	done := memory.Changed{Existed: existed}
	if err := memory.CheckVersion(c.IfVersion, before.Version); err != nil {
		return done, err
	}
	delete(items, c.Key)
	if c.Value == nil {
		return done, nil
	}
	usage := memory.Usage{Keys: int64(len(items))}
	if err := c.Quota.Check(c.Level, usage, memory.Usage{Keys: usage.Keys + 1}); err != nil {
		return done, err
	}
	b.versions++
	done.Item = memory.Item{Key: c.Key, Level: c.Level, Version: b.versions, Bytes: int64(len(c.Value)), UpdatedAt: Time}
	items[c.Key] = memory.Value{Item: done.Item, Value: c.Value}
	return done, nil
}

func (b memoryStore) MemoryValue(_ context.Context, claimID string, level memory.Level, key string) (memory.Value, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, err := b.items(claimID, level)
	if err != nil {
		return memory.Value{}, err
	}
	v, ok := items[key]
	if !ok {
		return v, memory.ErrNotFound
	}
	return v, nil
}

func (b memoryStore) MemoryItems(_ context.Context, claimID string, level memory.Level, prefix, after string, limit int) ([]memory.Item, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, err := b.items(claimID, level)
	var all []memory.Item
	for key, v := range items {
		if key > after && strings.HasPrefix(key, prefix) {
			all = append(all, v.Item)
		}
	}
	slices.SortFunc(all, func(a, b memory.Item) int { return strings.Compare(a.Key, b.Key) })
	return all[:min(limit, len(all))], err
}

func (memoryStore) EndMemory(context.Context) error { return nil }

func (memoryStore) NextMemoryEnd(context.Context, time.Time) (time.Time, error) {
	return time.Time{}, nil
}
func (memoryStore) RemoveMemory(context.Context) (bool, error) { return false, nil }
