package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/workload"
)

// source supplies what the templates and conditions of a hook may name.
type source struct {
	trusted    map[string]string
	configured map[string]string // the workload's environment
	captured   map[string]string
	parameters map[string]string // by the names of their variables
}

// source returns what the hooks of a point may name, without the trusted
// variables, which each run has. Captured values are read only if a hook names
// one.
func (r *Runner) source(ctx context.Context, hs []hooks.Hook, s Subject) (source, error) {
	src := source{parameters: parametersOf(s)}
	if s.workload != nil {
		src.configured = s.workload.Environment
	}
	if !slices.ContainsFunc(hs, src.namesCaptured) {
		return src, nil
	}
	// Those of a claim are its own, and take precedence over the container's. Those
	// of the container's earlier claims are not read: there may be many.
	filters := []hooks.RunFilter{{NoClaim: true}}
	if s.Claim != "" {
		filters = append(filters, hooks.RunFilter{Claim: s.Claim})
	}
	for _, f := range filters {
		f.Container, f.Captured, f.NoOutput = s.Container, true, true
		runs, err := r.recorder.Runs(ctx, f)
		if err != nil {
			return src, fmt.Errorf("read the captured values: %w", err)
		}
		src.add(runs)
	}
	return src, nil
}

// nodeOf returns the node of the container if a hook names it: the one on record
// or, before the container is idle for the first time, that of the engine. It is
// empty if neither knows it.
func (r *Runner) nodeOf(ctx context.Context, hs []hooks.Hook, s Subject) (string, error) {
	isNode := func(name string) bool { return name == "NODE" }
	namesNode := func(h hooks.Hook) bool {
		return slices.ContainsFunc(append(h.Action.Names(), h.Condition.Names()...), isNode)
	}
	if s.Container == "" || s.Skip != "" || !slices.ContainsFunc(hs, namesNode) {
		return "", nil
	}
	node, err := r.files.Node(ctx, s.Container)
	if err != nil {
		return "", fmt.Errorf("read the node of the container: %w", err)
	}
	if node != "" {
		return node, nil
	}
	status, err := r.rt.Status(ctx, s.Container)
	if err != nil {
		return "", nil //nolint:nilerr // the run has a warning that it is empty
	}
	return status.Node, nil
}

// namesCaptured reports whether a hook names a variable that only a capture can
// supply.
func (s source) namesCaptured(h hooks.Hook) bool {
	return slices.ContainsFunc(append(h.Action.Names(), h.Condition.Names()...), func(name string) bool {
		_, known := s.lookup(name)
		return !known
	})
}

// add adds the values that the attempts of a hook captured.
func (s *source) add(attempts []hooks.Run) {
	for _, run := range attempts {
		if len(run.Values) == 0 {
			continue
		}
		if s.captured == nil {
			s.captured = map[string]string{}
		}
		maps.Copy(s.captured, run.Values)
	}
}

// newAttempt returns the attempt that performs a run.
func newAttempt(h hooks.Hook, r hooks.Run, s Subject, src source) Attempt {
	a := queryOf(h, r)
	a.Fence, a.Source = s.Fence, s.Source
	a.MayAsk = s.MayAsk
	a.Parameters, a.Sealed = s.Parameters, s.Sealed
	a.Traceparent = s.Traceparent
	src.trusted = trustedOf(r, s)
	a.Lookup, a.Envelope = src.lookup, envelopeOf(r, s)
	if s.workload != nil {
		a.Secrets = s.workload.Secrets
	}
	return a
}

// lookup implements variables.Lookup. A name of Hostler has a value at every
// point, perhaps an empty one. Captured values are untrusted: they are what a
// receiver answered.
func (s source) lookup(name string) (variables.Value, bool) {
	rule, isOurs := variables.RuleOf(name)
	if text, ok := s.trusted[rule.Name]; isOurs && ok {
		return variables.Value{Text: text, Class: rule.Class}, true
	}
	if text, ok := s.parameters[name]; ok {
		return variables.Value{Text: text, Class: variables.Untrusted}, true
	}
	if text, ok := s.captured[name]; ok {
		return variables.Value{Text: text, Class: variables.Untrusted}, true
	}
	if text, ok := s.configured[name]; ok {
		return variables.Value{Text: text, Class: variables.Configured}, true
	}
	return variables.Value{Class: rule.Class}, isOurs && rule.IsSuppliedAt(s.trusted["EVENT_TYPE"])
}

// trustedOf returns the variables of an attempt that Hostler supplies, and the
// activity. Those of a wait may be untrusted: lookup knows which. They are the same
// at every attempt except ATTEMPT.
func trustedOf(r hooks.Run, s Subject) map[string]string {
	w := s.workload
	if w == nil {
		w = &workload.Workload{}
	}
	all := map[string]string{
		"CONTAINER_ID":   r.Container,
		"WORKLOAD_ID":    r.Workload,
		"WORKLOAD_NAME":  w.Name,
		"IMAGE":          w.Image,
		"NODE":           s.node,
		"CLAIM_ID":       r.Claim,
		"TENANT_ID":      r.Tenant,
		"HOOK":           r.Hook,
		"POINT":          string(r.Point),
		"EVENT_TYPE":     string(r.Point),
		"TIMESTAMP":      beginningOf(r).Format(time.RFC3339Nano),
		"RUN_ID":         r.ID,
		"ATTEMPT":        strconv.Itoa(r.Attempt),
		"PHASE":          r.Point.Rule().Phase,
		"CLAIM_SOURCE":   s.Source,
		"RELEASE_REASON": s.Reason,
		"ACTIVITY":       s.Activity,
	}
	if s.Wait != nil {
		maps.Copy(all, s.Wait.Variables)
	}
	return all
}

// beginningOf returns when the first attempt of a run was made, to the
// millisecond. It is in the run's id, so a server that resumes the run knows it.
func beginningOf(r hooks.Run) time.Time {
	id, err := uuid.Parse(r.ID)
	if err != nil || id.Version() != 7 {
		return r.StartedAt.UTC().Truncate(time.Millisecond)
	}
	return time.Unix(id.Time().UnixTime()).UTC().Truncate(time.Millisecond)
}

// Envelope describes to an action what happened. It is the same at every
// attempt.
type Envelope struct {
	Type      string          `json:"type"` // of the event, or the point
	Timestamp time.Time       `json:"timestamp"`
	Seq       int64           `json:"seq"` // of the event; 0 at a point
	RunID     string          `json:"run_id"`
	Hook      string          `json:"hook"`
	Workload  string          `json:"workload"`
	Container string          `json:"container"`
	Claim     string          `json:"claim"`
	Tenant    string          `json:"tenant"`
	Message   string          `json:"message"`
	Data      json.RawMessage `json:"data"`
	// Untrusted is whether a tenant's program published the event.
	Untrusted bool `json:"untrusted,omitempty"`
}

// envelopeOf returns the envelope of a run at a point, as JSON.
func envelopeOf(r hooks.Run, s Subject) []byte {
	data, err := json.Marshal(map[string]string{"phase": r.Point.Rule().Phase, "source": s.Source, "reason": s.Reason})
	if err != nil {
		data = []byte("{}") // text is always JSON
	}
	if s.Wait != nil {
		data = s.Wait.Data
	}
	e := Envelope{
		Type: string(r.Point), Timestamp: beginningOf(r), RunID: r.ID, Hook: r.Hook, Workload: r.Workload,
		Container: r.Container, Claim: r.Claim, Tenant: r.Tenant, Message: string(r.Point) + " hook", Data: data,
	}
	text, err := json.Marshal(e)
	if err != nil {
		return []byte("{}") // it has only text, numbers and JSON
	}
	return text
}
