package apitest

import (
	"context"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// Plan implements api.Workloads: one idle container is replaced.
func (b workloads) Plan(_ context.Context, source []byte, file, _ string) (pool.Applied, pool.Plan, error) {
	if err := b.injectedError("plan"); err != nil {
		return pool.Applied{}, pool.Plan{}, err
	}
	w, err := workload.Parse(source, file)
	if err != nil {
		return pool.Applied{}, pool.Plan{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, exists := b.Records[w.ID]
	p := pool.Plan{PreviousRevision: before.Revision, Replaced: []pool.Replaced{}}
	old, err := workload.Parse(before.Source, w.ID)
	if err != nil {
		old = nil
	}
	p.Changes, p.Revised = workload.Differences(old, w)
	if exists && before.Revision != w.Revision {
		p.Replaced = []pool.Replaced{{Reason: "its revision is outdated", Idle: 1}}
	}
	r := pool.Record{ID: w.ID, Revision: w.Revision, Source: source, MinIdle: w.Pool.MinIdle, MaxSize: w.Pool.MaxSize}
	return pool.Applied{Record: r, Created: !exists, Changed: string(before.Source) != string(source)}, p, nil
}
