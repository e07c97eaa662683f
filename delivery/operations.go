package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
)

// Delivery returns one delivery, or ErrNotFound.
func (s *Service) Delivery(ctx context.Context, id string) (Delivery, error) {
	return s.store.Delivery(ctx, id)
}

// Deliveries lists the matching deliveries by id.
func (s *Service) Deliveries(ctx context.Context, f Filter) ([]Delivery, error) {
	return s.store.Deliveries(ctx, f)
}

// Retry has a delivery attempted as soon as possible: one that waits for its next
// attempt, or one that has failed or was discarded, with all of its retries. One
// that is being attempted or has succeeded is ErrConflict.
func (s *Service) Retry(ctx context.Context, id string) (Delivery, error) {
	d, err := s.store.Delivery(ctx, id)
	if err != nil {
		return d, err
	}
	now := time.Now()
	d.State, d.Failures, d.Reason, d.DueAt, d.EndedAt = Queued, 0, "", &now, nil
	_, err = s.store.UpdateDelivery(ctx, Transition{
		Delivery: d, From: []State{Queued, Scheduled, Failed, Discarded}, Events: []activity.Event{d.event(activity.DeliveryRetried)},
	})
	if err != nil {
		return d, err
	}
	return s.store.Delivery(ctx, id)
}

// Discard ends a delivery that waits. One that is being attempted, or has ended,
// is ErrConflict.
func (s *Service) Discard(ctx context.Context, id string) (Delivery, error) {
	d, err := s.store.Delivery(ctx, id)
	if err == nil {
		err = s.discard(ctx, d, "requested by an operator", nil)
	}
	if err != nil {
		return d, err
	}
	return s.store.Delivery(ctx, id)
}

// Replay delivers old events of a workload again: those in the log from a number
// to a number, that the hook with a name is for. It returns how many deliveries
// it has added. They are new ones, with keys of their own.
func (s *Service) Replay(ctx context.Context, id, hook string, from, to int64) (int, error) {
	a, err := s.applied.of(ctx, id)
	if err != nil {
		return 0, err
	}
	h, ok := a.hook(hook)
	if !ok {
		return 0, fmt.Errorf("hook %s of workload %s: %w", hook, id, ErrHookNotFound)
	}
	added := 0
	for after := from - 1; ; {
		page, err := s.store.Events(ctx, activity.Filter{Workload: id}, after, batchSize)
		if err != nil {
			return added, err
		}
		var changes []Change
		for _, e := range page.Items {
			if e.Depth > 0 || e.Seq > to || !h.Matches(string(e.Type), e.Data) {
				continue
			}
			d := newDelivery(h, e)
			d.Replay = true
			changes = append(changes, Change{Add: d})
		}
		if err := s.store.AddDeliveries(ctx, changes); err != nil {
			return added, err
		}
		added += len(changes)
		if len(page.Items) < batchSize || page.Next >= to {
			break
		}
		after = page.Next
	}
	return added, s.store.AddDeliveries(ctx, nil, activity.Event{
		Type: activity.DeliveryReplayed, Workload: id, Depth: 1,
		Message: fmt.Sprintf("%d events from %d to %d are delivered again to hook %q", added, from, to, hook),
		Data:    activity.Data(activity.DeliveryReplayedData{Deliveries: added, From: from, Hook: hook, To: to}),
	})
}
