package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
)

// What follows an attempt depends on the policy of its hook, on how often it was
// retried, and on what its executor says about the ending; the state alone
// decides nothing but success.
func TestNext(t *testing.T) {
	both := Ending{MayRetry: true, MayContinue: true}
	clean := Ending{MayContinue: true}
	exhausted := newHook("a", hooks.Retry, 1)
	exhausted.OnExhausted = hooks.Continue
	failed := func(attempt int) hooks.Run { return hooks.Run{State: hooks.Failed, Attempt: attempt} }
	tests := map[string]struct {
		hook    hooks.Hook
		outcome outcome
		want    decision
		delay   time.Duration
	}{
		"succeeded":                        {newHook("a", hooks.Fail, 0), outcome{run: hooks.Run{State: hooks.Succeeded, Attempt: 1}}, done, 0},
		"skipped":                          {newHook("a", hooks.Fail, 0), outcome{run: hooks.Run{State: hooks.Skipped, Attempt: 1}}, done, 0},
		"fail":                             {newHook("a", hooks.Fail, 0), outcome{run: failed(1), ending: both}, fail, 0},
		"continue":                         {newHook("a", hooks.Continue, 0), outcome{run: failed(1), ending: both}, done, 0},
		"continue, container is in doubt":  {newHook("a", hooks.Continue, 0), outcome{run: failed(1)}, fail, 0},
		"first retry":                      {newHook("a", hooks.Retry, 2), outcome{run: failed(1), ending: both}, retry, time.Second},
		"second retry":                     {newHook("a", hooks.Retry, 2), outcome{run: failed(2), ending: both}, retry, 2 * time.Second},
		"retries exhausted":                {newHook("a", hooks.Retry, 2), outcome{run: failed(3), ending: both}, fail, 0},
		"retry, it would fail again":       {newHook("a", hooks.Retry, 2), outcome{run: failed(1), ending: clean}, fail, 0},
		"retries exhausted, continue":      {exhausted, outcome{run: failed(2), ending: both}, done, 0},
		"not retried, continue":            {exhausted, outcome{run: failed(1), ending: clean}, done, 0},
		"exhausted, container is in doubt": {exhausted, outcome{run: failed(2)}, fail, 0},
		"receiver asks for a delay":        {newHook("a", hooks.Retry, 2), outcome{run: failed(1), ending: both, after: 7 * time.Second}, retry, 7 * time.Second},
		"receiver asks for a short delay":  {newHook("a", hooks.Retry, 2), outcome{run: failed(2), ending: both, after: time.Second}, retry, 2 * time.Second},
		"receiver asks for a long delay":   {newHook("a", hooks.Retry, 2), outcome{run: failed(1), ending: both, after: time.Hour}, retry, time.Minute},
		"next attempt is on record":        {newHook("a", hooks.Fail, 0), outcome{run: failed(1), ending: both, followed: true}, retry, 0},
		"succeeded before another attempt": {newHook("a", hooks.Fail, 0), outcome{run: hooks.Run{State: hooks.Succeeded}, followed: true}, done, 0},
		"unknown":                          {newHook("a", hooks.Continue, 0), outcome{run: hooks.Run{State: hooks.Unknown, Attempt: 1}}, fail, 0},
		"unknown, may be performed again":  {newHook("a", hooks.Fail, 0), outcome{run: hooks.Run{State: hooks.Unknown, Attempt: 1}, repeatable: true}, retry, 0},
		"unknown, but nothing is in doubt": {newHook("a", hooks.Continue, 0), outcome{run: hooks.Run{State: hooks.Unknown, Attempt: 1}, ending: clean}, done, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, delay := next(tt.hook, tt.outcome)
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.delay, delay)
		})
	}
}
