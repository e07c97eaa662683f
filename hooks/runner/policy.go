package runner

import (
	"slices"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/backoff"
)

// outcome is an ended attempt of a hook.
type outcome struct {
	run    hooks.Run
	ending Ending
	// repeatable reports whether the outcome is unknown, nothing of the attempt
	// is left, and its hook is idempotent.
	repeatable bool
	followed   bool // the next attempt is already on record
	// after is the delay that the receiver of a request asked for.
	after time.Duration
}

// decision is what follows an ended attempt of a hook.
type decision int

// The decisions.
const (
	done  decision = iota // the next hook runs
	retry                 // the next attempt runs, after a delay
	fail                  // the point fails
)

// next returns what follows an ended attempt according to the policy of its
// hook, and the delay before a retry.
func next(h hooks.Hook, o outcome) (decision, time.Duration) {
	failsAs := h.OnError
	if failsAs == hooks.Retry {
		failsAs = h.OnExhausted
	}
	switch {
	case o.run.State == hooks.Succeeded, o.run.State == hooks.Skipped:
		return done, 0
	case o.followed, o.repeatable:
		return retry, 0
	case o.ending.MayRetry && o.run.Attempt <= h.Retries:
		return retry, max(retryDelay.Delay(o.run.Attempt), min(o.after, maxRetryAfter))
	case failsAs == hooks.Continue && o.ending.MayContinue:
		return done, 0
	}
	return fail, 0
}

// stops reports whether an attempt ends its point as a success.
func stops(h hooks.Hook, res Result) bool {
	exited := res.State == hooks.Failed && res.Detail.ExitCode != nil && res.Detail.Signal == ""
	return exited && slices.Contains(h.StopOn, *res.Detail.ExitCode) || res.State == hooks.Succeeded && res.Stop
}

// retryDelay is the delay after a failed attempt at a point: 1 s, 2 s, 4 s and
// so on.
var retryDelay = backoff.Policy{Min: time.Second, Max: time.Minute, Jitter: 0.1}

// maxRetryAfter limits how long the receiver of a request can delay a flow.
const maxRetryAfter = time.Minute
