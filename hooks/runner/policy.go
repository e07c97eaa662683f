package runner

import (
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
	switch {
	case o.run.State == hooks.Succeeded, o.run.State == hooks.Skipped:
		return done, 0
	case o.followed, o.repeatable:
		return retry, 0
	case o.ending.MayRetry && o.run.Attempt <= h.Retries:
		return retry, retryDelay.Delay(o.run.Attempt)
	case h.OnError == hooks.Continue && o.ending.MayContinue:
		return done, 0
	}
	return fail, 0
}

// retryDelay is the delay after a failed attempt: 1 s, 2 s, 4 s and so on.
var retryDelay = backoff.Policy{Min: time.Second, Max: time.Minute}
