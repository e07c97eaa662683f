package delivery

import (
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/backoff"
)

// retryDelay is how long a delivery waits after a failed attempt. maxDelay bounds
// it, and what a receiver asks for.
var retryDelay = backoff.Policy{Min: time.Second, Max: maxDelay, Jitter: 0.2}

const maxDelay = 10 * time.Minute

// minUnknownRetries is how often a request whose outcome is unknown is sent again
// in any case. The bound ends a delivery that terminates each server.
const minUnknownRetries = 3

// next returns a delivery after an attempt that has ended.
func next(o occasion, run hooks.Run, res runner.Result, ending runner.Ending, now time.Time) Delivery {
	d, h := o.delivery, o.hook
	if run.State == hooks.Succeeded {
		d.State, d.Reason = Succeeded, ""
		return d
	}
	d.Failures++
	d.Reason = (&hooks.Error{Run: run}).Error()
	inContainer := run.Kind.Rule().InContainer
	retries, mayRetry := h.Retries, ending.MayRetry
	if run.State == hooks.Unknown {
		// A command that may have run is not run again, unless its hook permits it.
		mayRetry = !inContainer || h.Idempotent && res.Gone
		retries = max(retries, minUnknownRetries)
	}
	switch {
	case run.State == hooks.Cancelled && inContainer:
		d.State = Discarded
	case mayRetry && d.Failures <= retries:
		due := now.Add(delay(d.Failures, res.RetryAfter))
		d.State, d.DueAt = Scheduled, &due
	default:
		d.State = Failed
	}
	return d
}

// delay returns how long a delivery waits after that many failures.
func delay(failures int, asked time.Duration) time.Duration {
	return min(max(retryDelay.Delay(failures), asked), maxDelay)
}
