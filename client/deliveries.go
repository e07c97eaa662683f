package client

import (
	"context"
	"time"
)

// DeliveryState is the state of a delivery.
type DeliveryState string

// The states of a delivery. All but the first three are final.
const (
	DeliveryQueued    DeliveryState = "queued"    // waits for its turn
	DeliveryScheduled DeliveryState = "scheduled" // waits for a time: of a retry, or the end of a debounce
	DeliveryRunning   DeliveryState = "running"   // is being attempted
	DeliverySucceeded DeliveryState = "succeeded"
	DeliveryFailed    DeliveryState = "failed"    // the last attempt failed
	DeliveryDiscarded DeliveryState = "discarded" // will not be attempted
)

// Delivery is one event hook for one event.
type Delivery struct {
	ID        string        `json:"id"` // also of its hook run, and the idempotency key of its requests
	Workload  string        `json:"workload"`
	Hook      string        `json:"hook"`
	Lane      string        `json:"lane"` // the deliveries of a hook and a lane are in order
	Seq       int64         `json:"seq"`  // of the event
	Event     EventType     `json:"event"`
	Container string        `json:"container,omitempty"`
	Claim     string        `json:"claim,omitempty"`
	Tenant    string        `json:"tenant,omitempty"`
	Replay    bool          `json:"replay,omitempty"` // added by a replay
	Priority  int           `json:"priority"`
	State     DeliveryState `json:"state"`
	Attempts  int           `json:"attempts"`         // that were started
	Failures  int           `json:"failures"`         // since it was queued
	DueAt     *time.Time    `json:"due_at,omitempty"` // of the next attempt, at the earliest
	Reason    string        `json:"reason,omitempty"` // why the last attempt failed, or why it was discarded
	CreatedAt time.Time     `json:"created_at"`
	EndedAt   *time.Time    `json:"ended_at,omitempty"`
}

// DeliveryFilter selects deliveries; empty fields match all.
type DeliveryFilter struct {
	Workload  string
	Hook      string
	Container string
	Claim     string
	Tenant    string
	States    []DeliveryState
	After     string // ids after this one
	IDPart    string // ids that begin or end with it; of all states only if States has them
	Newest    bool   // the newest first; After: ids before this one
	Limit     int    // 0: no limit
}

// Deliveries lists the deliveries that match.
func (c *Client) Deliveries(ctx context.Context, f DeliveryFilter) ([]Delivery, error) {
	q := values("workload", f.Workload, "hook", f.Hook, "container", f.Container, "claim", f.Claim, "tenant", f.Tenant,
		"state", joined(f.States), "after", f.After, "id", f.IDPart, "order", order(f.Newest))
	return listAll[Delivery](ctx, c, "/v1/deliveries", q, f.Limit)
}

// Delivery is one delivery.
func (c *Client) Delivery(ctx context.Context, id string) (Delivery, error) {
	return get[Delivery](ctx, c, path("/v1/deliveries", id))
}

// RetryDelivery has a delivery attempted as soon as possible, also one that has
// failed or was discarded.
func (c *Client) RetryDelivery(ctx context.Context, id string) (Delivery, error) {
	out, _, err := post[Delivery](ctx, c, path("/v1/deliveries", id)+"/retry", nil)
	return out, err
}

// DiscardDelivery ends a delivery that waits.
func (c *Client) DiscardDelivery(ctx context.Context, id string) (Delivery, error) {
	out, _, err := post[Delivery](ctx, c, path("/v1/deliveries", id)+"/discard", nil)
	return out, err
}

// Replay selects events of the log by their places.
type Replay struct {
	From int64 `json:"from"`
	To   int64 `json:"to,omitempty"` // 0: the end of the log
}

// Replayed is the result of a replay.
type Replayed struct {
	Deliveries int `json:"deliveries"` // that were added
}

// ReplayEvents delivers old events to an event hook of a workload again.
func (c *Client) ReplayEvents(ctx context.Context, workload, hook string, r Replay) (Replayed, error) {
	out, _, err := post[Replayed](ctx, c, path("/v1/workloads", workload)+path("/event-hooks", hook)+"/replay", r)
	return out, err
}
