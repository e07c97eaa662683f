package hooks

import (
	"encoding/json"
	"time"
)

// Envelope is what an action gets of what happened. It is the same at every
// attempt. Commands and scripts get it as JSON on stdin, and it is the default
// body of a webhook.
type Envelope struct {
	Type      string          `json:"type"` // of the event, or the point
	Timestamp time.Time       `json:"timestamp"`
	Seq       int64           `json:"seq,omitempty"` // of the event
	RunID     string          `json:"run_id"`
	Hook      string          `json:"hook"`
	Workload  string          `json:"workload"`
	Container string          `json:"container,omitempty"`
	Claim     string          `json:"claim,omitempty"`
	Tenant    string          `json:"tenant,omitempty"`
	Message   string          `json:"message,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
}

// JSON returns the envelope as JSON. Data that is not JSON is left out.
func (e Envelope) JSON() []byte {
	if !json.Valid(e.Data) {
		e.Data = nil
	}
	b, err := json.Marshal(e)
	if err != nil {
		panic("hooks: an envelope is not JSON: " + err.Error()) // it has only text, numbers and JSON
	}
	return b
}
