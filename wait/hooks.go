package wait

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/runtime"
)

// describe returns what the hooks of a point are told about the wait. It follows
// from the record, so it is the same when another server resumes the point.
func (w Wait) describe(p hooks.Point) *runner.Wait {
	context := w.contextOf()
	values := map[string]string{
		"WAIT_TYPE": w.Type, "WAIT_NAME": w.Name, "TIMEOUT_THRESHOLD": milliseconds(w.Timeout()),
		"TASK": context.Task, "ITERATION": context.Iteration, "WAIT_PHASE": context.Phase,
	}
	switch p {
	case hooks.WaitSignal:
		values["SIGNAL_DATA"], values["WAIT_DURATION"] = string(w.Data), milliseconds(w.duration())
	case hooks.WaitTimeout:
		values["TIMEOUT_DURATION"], values["EXCEEDED_BY"] = milliseconds(w.duration()), milliseconds(w.Exceeded())
	}
	data, err := json.Marshal(map[string]any{
		"wait": w.ID, "name": w.Name, "type": w.Type, "round": w.Round, "timeout_ms": w.TimeoutMS,
		"duration_ms": w.duration().Milliseconds(), "context": orNull(w.Context), "signal": orNull(w.Data),
	})
	if err != nil {
		data = []byte("{}") // it has only text, numbers and JSON
	}
	return &runner.Wait{Round: w.round(), Variables: values, Data: data}
}

func orNull(j json.RawMessage) json.RawMessage {
	if len(j) == 0 {
		return json.RawMessage("null")
	}
	return j
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// taskContext is what hooks know by name of a wait's context.
type taskContext struct{ Task, Iteration, Phase string }

// contextOf returns the fields of the context. Fields that are neither text nor
// numbers are as JSON has them. A NUL cannot be in a variable of a process.
func (w Wait) contextOf() taskContext {
	var fields map[string]json.RawMessage
	if json.Unmarshal(w.Context, &fields) != nil {
		return taskContext{} // the tenant sent no object
	}
	text := func(name string) string {
		var s string
		if json.Unmarshal(fields[name], &s) != nil {
			s = string(fields[name])
		}
		return strings.ReplaceAll(s, "\x00", "")
	}
	return taskContext{Task: text("task"), Iteration: text("iteration"), Phase: text("phase")}
}

// outcome returns what the hooks of wait_timeout decided: the last one, by the last
// line of its output or by its response, if it succeeded. max is the greatest
// extension.
func outcome(runs []hooks.Run, max time.Duration) Outcome {
	if len(runs) == 0 {
		return Outcome{}
	}
	last := runs[len(runs)-1]
	if last.State != hooks.Succeeded {
		return Outcome{}
	}
	text := last.Response
	if last.Kind.Rule().InContainer {
		text = lastLine(last.Stdout)
	}
	var said struct {
		Decision Decision `json:"decision"`
		By       any      `json:"by"`
	}
	if json.Unmarshal([]byte(text), &said) != nil || said.Decision == "" {
		return Outcome{}
	}
	v := Outcome{Decision: said.Decision}
	switch said.Decision {
	case Extend:
		return v.extendBy(said.By, max)
	case Abort, Retry, Escalate:
		return v
	}
	return Outcome{Reason: "the last wait_timeout hook printed an unknown decision"}
}

// extendBy limits an extension to what a wait may have as its timeout.
func (v Outcome) extendBy(by any, max time.Duration) Outcome {
	if by == nil || by == "" {
		return v
	}
	text, _ := by.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond {
		return Outcome{Reason: "the last wait_timeout hook printed an extension by something that is not a duration of at least 1ms"}
	}
	if v.By = d; d > max {
		v.By, v.Reason = max, "the extension was limited to "+max.String()
	}
	return v
}

// lastLine returns the last line of an output that is not empty, or "" if its
// beginning is lost: what is left of it is not what was printed.
func lastLine(o runtime.Output) string {
	text := o.Head + o.Tail
	if o.Truncated {
		text = o.Tail
	}
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	before := strings.LastIndexByte(text, '\n')
	if before < 0 && o.Truncated {
		return ""
	}
	return text[before+1:]
}
