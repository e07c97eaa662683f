package pool

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/workload"
)

// Plan is what applying a workload file would do.
type Plan struct {
	PreviousRevision string                 `json:"previous_revision,omitempty" doc:"The revision that is applied; empty: there is no such workload."`
	Changes          []workload.FieldChange `json:"changes" doc:"The values of the file that differ from the applied file, by path, at most 200. Bounds that the pool was scaled to are those of pool."`
	Revised          []string               `json:"revised" doc:"What of that determines the containers, such as image or hooks.post_create. Empty: the revision stays."`
	EndsDraining     bool                   `json:"ends_draining,omitempty" doc:"The pool is draining, or the workload is being deleted, and this would end it."`
	Replaced         []Replaced             `json:"replaced" doc:"The containers that would be outdated, by the reason."`
}

// Replaced is how many containers would be outdated for one reason.
type Replaced struct {
	Reason   string `json:"reason" example:"its revision is outdated"`
	Idle     int    `json:"idle" doc:"Destroyed once enough new containers are ready."`
	Claimed  int    `json:"claimed" doc:"Destroyed when their claims are released."`
	Creating int    `json:"creating" doc:"Their creation is canceled unless it ends soon."`
}

// Plan returns what Apply would do and return, and changes nothing. What it
// rejects, Apply rejects too.
func (m *Manager) Plan(ctx context.Context, source []byte, file, dir string) (Applied, Plan, error) {
	w, err := m.accept(ctx, source, file, dir)
	if err != nil {
		return Applied{}, Plan{}, err
	}
	c, err := m.changeOf(ctx, w, dir)
	if err != nil {
		return Applied{}, Plan{}, err
	}
	p := Plan{PreviousRevision: c.before.Revision, EndsDraining: c.isChange && c.before.Draining}
	before, err := workload.Parse(c.before.Source, w.ID)
	if err != nil {
		before = nil // there is none, or this version does not accept it
	}
	p.Changes, p.Revised = workload.Differences(before, w)
	if p.Replaced, err = m.replacedBy(ctx, c.after); err != nil {
		return Applied{}, Plan{}, err
	}
	return Applied{Record: c.after, Created: c.isNew, Changed: c.isChange}, p, nil
}

// replacedBy returns the containers that are outdated with that record.
func (m *Manager) replacedBy(ctx context.Context, r Record) ([]Replaced, error) {
	counts, err := m.store.Counts(ctx, r.ID)
	if err != nil {
		return nil, fmt.Errorf("count the containers of %s: %w", r.ID, err)
	}
	protocols := m.rt.Protocols()
	all, index := []Replaced{}, map[string]int{}
	for _, k := range counts {
		reason := OutdatedReason(Container{Revision: k.Revision, Protocol: k.Protocol}, r.Revision, protocols.Current)
		if reason == "" || k.State == Destroying || protocols.IsNewer(k.Protocol) {
			continue
		}
		if _, ok := index[reason]; !ok {
			index[reason] = len(all)
			all = append(all, Replaced{Reason: reason})
		}
		entry := &all[index[reason]]
		if n := map[State]*int{Idle: &entry.Idle, Claimed: &entry.Claimed, Creating: &entry.Creating}[k.State]; n != nil {
			*n += k.N
		}
	}
	return all, nil
}
