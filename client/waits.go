package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/hostler/hostler/internal/backoff"
)

// WaitState is the state of a wait.
type WaitState string

// The states of a wait. The first four are open, the others final.
const (
	WaitStarting   WaitState = "starting"   // its wait_start hooks run
	WaitWaiting    WaitState = "waiting"    // until its deadline
	WaitSignalling WaitState = "signalling" // its wait_signal hooks run
	WaitTimingOut  WaitState = "timing_out" // its wait_timeout hooks run
	WaitSignalled  WaitState = "signalled"
	WaitTimedOut   WaitState = "timed_out"
	WaitAborted    WaitState = "aborted"
	WaitCancelled  WaitState = "cancelled" // its claim ended
)

// IsOpen reports whether a wait in state s still has to end.
func (s WaitState) IsOpen() bool {
	return s == WaitStarting || s == WaitWaiting || s == WaitSignalling || s == WaitTimingOut
}

// Decision is what becomes of a wait after its deadline.
type Decision string

// The decisions.
const (
	DecideAbort    Decision = "abort"
	DecideRetry    Decision = "retry"
	DecideExtend   Decision = "extend"
	DecideEscalate Decision = "escalate"
)

// Wait is a wait of a tenant's program for a signal.
type Wait struct {
	ID        string          `json:"id"`
	Claim     string          `json:"claim"`
	Workload  string          `json:"workload"`
	Container string          `json:"container"`
	Tenant    string          `json:"tenant"`
	Request   string          `json:"request_id,omitempty"`
	Name      string          `json:"name,omitempty"` // a signal has the same one
	Type      string          `json:"type"`
	State     WaitState       `json:"state"`
	Round     int             `json:"round"`      // from 1; an extension or a retry begins another
	TimeoutMS int64           `json:"timeout_ms"` // without the wait_start hooks
	OnTimeout Decision        `json:"on_timeout,omitempty"`
	Context   json.RawMessage `json:"context,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`     // of the signal
	Decision  Decision        `json:"decision,omitempty"` // after the deadline
	Reason    string          `json:"reason,omitempty"`   // why it ended as it did
	Extended  bool            `json:"extended,omitempty"`
	Retried   bool            `json:"retried,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	StartedAt *time.Time      `json:"started_at,omitempty"` // its clock, last
	Deadline  *time.Time      `json:"deadline,omitempty"`
	FiredAt   *time.Time      `json:"fired_at,omitempty"` // when its signal came or its deadline passed, last
	EndedAt   *time.Time      `json:"ended_at,omitempty"`
}

// WaitRequest is the request to wait.
type WaitRequest struct {
	// RequestID identifies the request. One that is repeated returns the same wait,
	// also after its end.
	RequestID string
	Name      string // of the signals, if any
	Type      string // such as consensus, validation or dependency
	Timeout   time.Duration
	OnTimeout Decision // empty: DecideEscalate
	Context   json.RawMessage
}

// waitBody is a WaitRequest in JSON.
type waitBody struct {
	RequestID string          `json:"request_id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Type      string          `json:"type"`
	Timeout   string          `json:"timeout"`
	OnTimeout Decision        `json:"on_timeout,omitempty"`
	Context   json.RawMessage `json:"context,omitempty"`
}

// WaitFilter selects waits; empty fields match all.
type WaitFilter struct {
	Workload string
	Claim    string
	Tenant   string
	States   []WaitState
	After    string // ids after this one
	IDPart   string // ids that begin or end with it; of all states only if States has them
	Newest   bool   // the newest first; After: ids before this one
	Limit    int    // 0: no limit
}

// SignalResult is what became of a signal.
type SignalResult struct {
	Wait string `json:"wait,omitempty"` // that got it; empty if it is kept for the next one of its name
	Kept int    `json:"kept,omitempty"` // signals that are kept for the name, with this one
}

// pollTime is how long one request waits for the end of a wait.
const pollTime = 30 * time.Second

// maxPollFailures is how many requests may fail one after another while a wait is
// followed. It continues without its callers.
const maxPollFailures = 20

var pollRetries = backoff.Policy{Min: 200 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.2}

// StartWait begins a wait of an active claim and returns without waiting for its end.
// While a wait of the name is open, that one is returned, with created false.
func (c *Client) StartWait(ctx context.Context, claim string, r WaitRequest) (w Wait, created bool, err error) {
	w, status, err := post[Wait](ctx, c, path("/v1/claims", claim)+"/waits", waitBody{
		RequestID: r.RequestID, Name: r.Name, Type: r.Type, Timeout: r.Timeout.String(), OnTimeout: r.OnTimeout, Context: r.Context,
	})
	return w, status == http.StatusCreated, err
}

// Wait begins a wait and returns it when it has ended: with the data of its signal
// if its state is WaitSignalled. It returns to the same wait after a lost
// connection, or a restart of the server.
func (c *Client) Wait(ctx context.Context, claim string, r WaitRequest) (w Wait, err error) {
	if r.RequestID == "" {
		r.RequestID = rand.Text()
	}
	err = persist(ctx, func() error {
		w, _, err = c.StartWait(ctx, claim, r)
		return err
	})
	for err == nil && w.State.IsOpen() {
		id := w.ID // of a request that fails there is no wait
		err = persist(ctx, func() error {
			w, err = c.FollowWait(ctx, id, pollTime)
			return err
		})
	}
	return w, err
}

// persist repeats a request while the server is unavailable.
func persist(ctx context.Context, do func() error) error {
	retries := pollRetries.Retries()
	for failures := 1; ; failures++ {
		err := do()
		if err == nil || !isTemporary(err) || failures == maxPollFailures || ctx.Err() != nil {
			return err
		}
		if sleepErr := retries.Sleep(ctx); sleepErr != nil {
			return sleepErr
		}
	}
}

// GetWait returns a wait.
func (c *Client) GetWait(ctx context.Context, id string) (Wait, error) {
	return get[Wait](ctx, c, path("/v1/waits", id))
}

// FollowWait returns a wait when it has ended, or after d, which is at most 5 minutes.
func (c *Client) FollowWait(ctx context.Context, id string, d time.Duration) (Wait, error) {
	out, _, err := doJSON[Wait](ctx, c, call{
		method: http.MethodGet, path: path("/v1/waits", id), query: url.Values{"wait": {d.String()}},
	})
	return out, err
}

// Waits lists the waits that match, without their contexts and data.
func (c *Client) Waits(ctx context.Context, f WaitFilter) ([]Wait, error) {
	q := values("workload", f.Workload, "claim", f.Claim, "tenant", f.Tenant, "state", joined(f.States), "after", f.After, "id", f.IDPart, "order", order(f.Newest))
	return listAll[Wait](ctx, c, "/v1/waits", q, f.Limit)
}

// Signal sends data to the open wait of a name of a claim. If none waits now, it is
// kept for the next one, until the claim ends. It is not repeated when the
// connection breaks: the next wait would get it a second time.
func (c *Client) Signal(ctx context.Context, claim, name string, data json.RawMessage) (SignalResult, error) {
	body, err := json.Marshal(map[string]any{"name": name, "data": data})
	if err != nil {
		return SignalResult{}, err
	}
	out, _, err := doJSON[SignalResult](ctx, c, call{
		method: http.MethodPost, path: path("/v1/claims", claim) + "/signals", body: body,
		header: http.Header{"Content-Type": {"application/json"}}, noRetry: true,
	})
	return out, err
}
