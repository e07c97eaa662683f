package runner

import (
	"context"
	"encoding/json"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/workload"
)

// PointAttempt returns the first attempt that Fire would make for the hook of w
// at a point with an index. It performs nothing and reads no records: no value
// is captured.
func PointAttempt(p hooks.Point, index int, w *workload.Workload, s Subject) Attempt {
	s.workload = w
	h := w.Hooks[p][index]
	return newAttempt(h, newRun(p, h, index, s), s, source{configured: w.Environment, parameters: parametersOf(s)})
}

// TestAttempt returns the run and the attempt that test the hook of w at a point
// with an index. captured has what earlier hooks of the same test have captured.
func (r *Runner) TestAttempt(ctx context.Context, p hooks.Point, index int, w *workload.Workload, s Subject, captured map[string]string) (hooks.Run, Attempt, error) {
	s.workload = w
	if s.Wait == nil {
		s.Wait = SampleWait(p, func(_, example string) string { return example })
	}
	h := w.Hooks[p][index]
	src, err := r.source(ctx, []hooks.Hook{h}, s)
	if err != nil {
		return hooks.Run{}, Attempt{}, err
	}
	if s.node, err = r.nodeOf(ctx, []hooks.Hook{h}, s); err != nil {
		return hooks.Run{}, Attempt{}, err
	}
	run := newRun(p, h, index, s)
	src.add([]hooks.Run{{Values: captured}})
	return run.AsTest(), newAttempt(h, run, s, src), nil
}

// EventPreview returns the attempt that performs a run of an event hook, as
// Runner.EventAttempt does, but without captured values.
func EventPreview(h hooks.Hook, run hooks.Run, w *workload.Workload, e Envelope) (Attempt, error) {
	return eventAttempt(h, run, eventSubject(run, w), e, source{configured: w.Environment})
}

// waitSamples are examples of the variables of waits.
var waitSamples = map[string]string{
	"WAIT_TYPE": "consensus", "WAIT_NAME": "sample-wait", "TIMEOUT_THRESHOLD": "60000", "TASK": "sample task", "ITERATION": "1", "WAIT_PHASE": "sample phase",
	"SIGNAL_DATA": `{"action":"approved"}`, "WAIT_DURATION": "45000", "TIMEOUT_DURATION": "60012", "EXCEEDED_BY": "12",
}

// SampleWait returns an example of a wait for the hooks of a point, and nil if the
// point is not one of a wait. sample may replace the example of a variable.
func SampleWait(p hooks.Point, sample func(name, example string) string) *Wait {
	if !p.Rule().OfWait {
		return nil
	}
	values := map[string]string{}
	for name, example := range waitSamples {
		if rule, _ := variables.RuleOf(name); rule.IsSuppliedAt(string(p)) {
			values[name] = sample(name, example)
		}
	}
	duration := values["WAIT_DURATION"] + values["TIMEOUT_DURATION"] // a point has one of them
	data, err := json.Marshal(map[string]any{
		"wait": "sample-wait", "name": values["WAIT_NAME"], "type": values["WAIT_TYPE"], "round": 1, "timeout_ms": asJSON(values["TIMEOUT_THRESHOLD"]),
		"duration_ms": asJSON(duration), "signal": asJSON(values["SIGNAL_DATA"]),
		"context": map[string]any{"task": values["TASK"], "iteration": asJSON(values["ITERATION"]), "phase": values["WAIT_PHASE"]},
	})
	if err != nil {
		data = []byte("{}") // it has only text and JSON
	}
	return &Wait{Variables: values, Data: data}
}

// asJSON returns a text as the JSON that it is, else as text, and null if it is empty.
func asJSON(text string) any {
	switch {
	case text == "":
		return nil
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return text
}
