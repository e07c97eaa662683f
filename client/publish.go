package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Publication is an event of a claim's program.
type Publication struct {
	// Type is lower-case words with dots between them. What begins with neither
	// "agent." nor "custom." is recorded as one of custom.
	Type     string          `json:"type"`
	Data     json.RawMessage `json:"data,omitempty"`     // at most 32 KiB
	Priority *int            `json:"priority,omitempty"` // 0 to 9; nil: 7
}

// Published describes the event that was recorded.
type Published struct {
	Type      EventType `json:"type"`
	Priority  int       `json:"priority"`
	Time      time.Time `json:"time"`
	Untrusted bool      `json:"untrusted"` // always true
}

// Publish records an event of a claim's program. If the claim or its tenant
// publishes too many, the event is dropped, and the error has the code
// CodeRateLimited. The call is not repeated when the connection breaks, because
// the event may have been recorded.
func (c *Client) Publish(ctx context.Context, claim string, p Publication) (Published, error) {
	body, err := json.Marshal(struct {
		Claim string `json:"claim"`
		Publication
	}{claim, p})
	if err != nil {
		return Published{}, fmt.Errorf("write the request: %w", err)
	}
	out, _, err := doJSON[Published](ctx, c, call{
		method: http.MethodPost, path: "/v1/events", body: body, header: http.Header{"Content-Type": {"application/json"}}, noRetry: true,
	})
	return out, err
}

// ActivityReport is what a claim's program does.
type ActivityReport struct {
	// Activity is idle, thinking, executing, waiting_for_input, blocked, completed,
	// limits_exceeded, stalled or offline.
	Activity string `json:"activity"`
	Tool     string `json:"tool,omitempty"` // the tool that it uses
	Task     string `json:"task,omitempty"` // what it works on
}

// Activity is the activity of a claim's program as it is recorded.
type Activity struct {
	Activity string    `json:"activity"`
	Tool     string    `json:"tool,omitempty"`
	Since    time.Time `json:"since"`   // when it last changed
	Changed  bool      `json:"changed"` // by this report
}

// SetActivity records what a claim's program does.
func (c *Client) SetActivity(ctx context.Context, claim string, r ActivityReport) (Activity, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return Activity{}, fmt.Errorf("write the request: %w", err)
	}
	out, _, err := doJSON[Activity](ctx, c, call{
		method: http.MethodPut, path: path("/v1/claims", claim) + "/activity", body: body, header: http.Header{"Content-Type": {"application/json"}},
	})
	return out, err
}
