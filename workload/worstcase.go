package workload

import (
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// maxRetryAfter is how long the receiver of a request can delay its retry at most
// (package hooks/runner).
const maxRetryAfter = time.Minute

// WorstCase returns how long the hooks of a point can take at most: every attempt
// takes its timeout, and commands also their grace, and every hook is retried as
// often as it may be.
func (w *Workload) WorstCase(p hooks.Point) time.Duration {
	var total time.Duration
	for _, h := range w.Hooks[p] {
		if h.Disabled {
			continue
		}
		attempt, minDelay := h.Timeout, time.Duration(0)
		switch a := h.Action.(type) {
		case hooks.Command:
			attempt += grace(a.Process)
		case hooks.Script:
			attempt += grace(a.Process)
		case hooks.Request:
			minDelay = maxRetryAfter
		}
		total += attempt * time.Duration(h.Retries+1)
		for i := range h.Retries {
			delay := time.Second << i
			total += max(delay+delay/10, minDelay) // with its jitter
		}
	}
	return total
}

// grace returns the time that a process has after SIGTERM.
func grace(p hooks.Process) time.Duration {
	if p.Grace != nil {
		return *p.Grace
	}
	return runtime.DefaultGrace
}
