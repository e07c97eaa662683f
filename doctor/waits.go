package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/wait"
)

// stuckWaitAge is how long a wait may be open in which nothing is due any more: its
// deadline has passed, or its signal was received. It includes the hooks of a point.
const stuckWaitAge = 15 * time.Minute

// stuckWaits finds waits that do not end.
func (v *examination) stuckWaits(ctx context.Context) error {
	open, err := v.Records.Waits(ctx, wait.Filter{States: []wait.State{wait.Starting, wait.Waiting, wait.Signalling, wait.TimingOut}})
	if err != nil {
		return err
	}
	for _, w := range open {
		due := dueOf(w)
		if v.now.Sub(due) < stuckWaitAge {
			continue
		}
		v.addFinding(Finding{
			Severity: Warning, Workload: w.Workload, Container: w.Container, Claim: w.Claim, Tenant: w.Tenant,
			Message: fmt.Sprintf("wait %s of claim %s is %s, which should have ended %s ago", w.ID, w.Claim, w.State, v.age(due)),
			Hint: fmt.Sprintf("check the servers' logs for \"wait could not be continued\", and `hostler get runs --claim %[1]s` for hooks that still run; "+
				"a restart of the server continues the wait, and `hostler release %[1]s` ends it with its claim", w.Claim),
		})
	}
	return nil
}

// dueOf returns when the state of an open wait should have ended, apart from its
// hooks.
func dueOf(w wait.Wait) time.Time {
	switch {
	case w.State == wait.Waiting && w.Deadline != nil:
		return *w.Deadline
	case w.FiredAt != nil: // its hooks run since then, or those of its start once more
		return *w.FiredAt
	}
	return w.CreatedAt
}
