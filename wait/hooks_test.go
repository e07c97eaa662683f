package wait

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// What is not a duration extends nothing, and the reason describes it. Other decisions need
// none.
func TestExtensionIsADuration(t *testing.T) {
	for line, want := range map[string]Outcome{
		`{"decision": "extend"}`:                    {Decision: Extend},
		`{"decision": "extend", "by": null}`:        {Decision: Extend},
		`{"decision": "extend", "by": ""}`:          {Decision: Extend},
		`{"decision": "extend", "by": "30s"}`:       {Decision: Extend, By: 30 * time.Second},
		`{"decision": "abort", "by": 30}`:           {Decision: Abort},
		`{"decision": "extend", "by": 30}`:          {},
		`{"decision": "extend", "by": ["30s"]}`:     {},
		`{"decision": "extend", "by": "30"}`:        {},
		`{"decision": "extend", "by": "-30s"}`:      {},
		`{"decision": "extend", "by": {"a": "1s"}}`: {},
	} {
		got := outcome([]hooks.Run{{Kind: hooks.KindScript, State: hooks.Succeeded, Stdout: runtime.Output{Head: line}}}, time.Minute)
		if want.Decision == "" {
			want.Reason = "the last wait_timeout hook printed an extension by something that is not a duration of at least 1ms"
		}
		require.Equal(t, want, got, line)
	}
}

// Only a whole last line decides. What is kept of a long output may begin within a
// line, at a place that who wrote the line chose.
func TestCutLineDecidesNothing(t *testing.T) {
	const decision = `{"decision": "abort"}`
	lost := func(tail string) runtime.Output {
		return runtime.Output{Head: "begin\n", Tail: tail, Total: 1 << 20, Truncated: true}
	}
	for name, tt := range map[string]struct {
		printed runtime.Output
		want    Decision
	}{
		"whole":                   {runtime.Output{Head: "a\n" + decision}, Abort},
		"only line":               {runtime.Output{Head: decision}, Abort},
		"in both parts":           {runtime.Output{Head: "a\n" + decision[:5], Tail: decision[5:]}, Abort},
		"whole in the tail":       {lost("rest of a line\n" + decision + "\n"), Abort},
		"first in the tail":       {lost("\n" + decision), Abort},
		"end of a line":           {lost(decision), ""},
		"end of a line of spaces": {lost(strings.Repeat(" ", 1000) + decision + "\n"), ""},
		"head and tail":           {runtime.Output{Head: "a\n" + decision[:5], Tail: decision[5:], Truncated: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			runs := []hooks.Run{{Kind: hooks.KindScript, State: hooks.Succeeded, Stdout: tt.printed}}
			require.Equal(t, tt.want, outcome(runs, time.Minute).Decision)
		})
	}
}

// A deadline may be recorded late: its hooks know for how long the tenant has waited,
// and by how much that is more than the timeout.
func TestLateDeadline(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) *time.Time { t := start.Add(d); return &t }
	w := Wait{TimeoutMS: 300_000, StartedAt: &start, Deadline: at(5 * time.Minute), FiredAt: at(5*time.Minute + 5*time.Second)}
	values := w.describe(hooks.WaitTimeout).Variables
	require.Equal(t, []string{"300000", "305000", "5000"}, []string{values["TIMEOUT_THRESHOLD"], values["TIMEOUT_DURATION"], values["EXCEEDED_BY"]})
}
