package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
)

// failedReleases are claims that keep their containers, because their tenants'
// state could not be kept.
func (v *examination) failedReleases(ctx context.Context) error {
	claims, err := v.Records.Claims(ctx, claim.Filter{States: []claim.State{claim.ReleaseFailed}})
	if err != nil {
		return err
	}
	for _, c := range claims {
		f := v.describeClaim(c)
		f.Severity = Error
		f.Message = fmt.Sprintf("claim %s of tenant %s keeps its container, %d releases in a row have failed: %s", c.ID, c.Tenant, c.Failures, c.Reason)
		f.Hint = fmt.Sprintf(releaseHints[c.FailureReason]+"; `hostler release %[1]s` tries at once, and `hostler release %[1]s --discard` gives the state up", c.ID)
		v.addFinding(f)
	}
	return nil
}

// releaseHints say what to mend, by why a release fails.
var releaseHints = map[claim.FailureReason]string{
	"":                    "mend the sink",
	claim.FailedBySink:    "mend the sink",
	claim.FailedByTenant:  "see what keeps the container from being read; it is destroyed after the pool's release_failed_ttl",
	claim.FailedByVersion: "start a server of the version between this one and the container's, which can release it",
	claim.FailedStale:     "a later claim of the tenant, perhaps of another installation or before a restore, has kept its state, which is never overwritten: save by hand what is needed",
}

// retainedContainers are pools in which so many releases have failed that there is
// less room for others.
func (v *examination) retainedContainers(ctx context.Context) error {
	all, err := v.Pools.Statuses(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Kept <= s.MaxSize {
			continue
		}
		v.addFinding(Finding{
			Severity: Error, Workload: s.Workload,
			Message: fmt.Sprintf("%d containers of %s hold what could not be kept; all above max_size, %d, take the room of others", s.Kept, s.Workload, s.MaxSize),
			Hint: fmt.Sprintf("`hostler get claims --failed --workload %[1]s` says why; mend that, or give states up with `hostler release CLAIM --discard`; "+
				"`hostler scale %[1]s --max-size N` makes room meanwhile", s.Workload),
		})
	}
	return nil
}

// newerContainers are pools with containers that a newer server made.
func (v *examination) newerContainers(ctx context.Context) error {
	all, err := v.Pools.Statuses(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Newer == 0 {
			continue
		}
		v.addFinding(Finding{
			Severity: Warning, Workload: s.Workload,
			Message: fmt.Sprintf("%d containers of %s were made by a newer server: this one cannot speak to them, and leaves them alone", s.Newer, s.Workload),
			Hint:    "finish the upgrade of the servers; to stay with this version, start the newer one again, drain the pool and release its claims there first",
		})
	}
	return nil
}

// stuckClaimAge is how long the making or the release of a claim may take: the
// longest wait for a container, and hooks.
const stuckClaimAge = 15 * time.Minute

func (v *examination) stuckClaims(ctx context.Context) error {
	claims, err := v.Records.Claims(ctx, claim.Filter{States: []claim.State{claim.Pending, claim.Releasing}})
	if err != nil {
		return err
	}
	for _, c := range claims {
		since, err := v.since(ctx, c)
		if err != nil {
			return err
		}
		if v.now.Sub(since) < stuckClaimAge {
			continue
		}
		f := v.describeClaim(c)
		f.Message = fmt.Sprintf("claim %s of tenant %s has been %s for %s", c.ID, c.Tenant, c.State, v.age(since))
		f.Hint = fmt.Sprintf("`hostler events --claim %s --after 0` says how far it is; `hostler release %s` ", c.ID, c.ID) +
			map[claim.State]string{claim.Pending: "ends it", claim.Releasing: "waits for its end and says what is in the way"}[c.State]
		v.addFinding(f)
	}
	return nil
}

// maxClaimEvents is more than a claim has of one type.
const maxClaimEvents = 1000

// since is when a claim got into its state.
func (v *examination) since(ctx context.Context, c claim.Claim) (time.Time, error) {
	if c.State == claim.Pending {
		return c.CreatedAt, nil
	}
	page, err := v.Records.Events(ctx, activity.Filter{Types: []activity.Type{activity.ClaimReleasing}, Claim: c.ID}, 0, maxClaimEvents)
	if err != nil {
		return time.Time{}, err
	}
	if len(page.Items) == 0 {
		return c.CreatedAt, nil // it is older than what is kept of the log
	}
	return page.Items[len(page.Items)-1].Time, nil
}

func (v *examination) describeClaim(c claim.Claim) Finding {
	return Finding{Severity: Warning, Workload: c.Workload, Container: c.Container, Claim: c.ID, Tenant: c.Tenant}
}

// failingPools are those whose containers cannot be made.
func (v *examination) failingPools(ctx context.Context) error {
	all, err := v.Pools.Statuses(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Fill.Failures == 0 {
			continue
		}
		f := Finding{
			Severity: Warning, Workload: s.Workload,
			Message: fmt.Sprintf("%d containers of %s in a row could not be made: %s", s.Fill.Failures, s.Workload, s.Fill.LastError),
			Hint: fmt.Sprintf("mend the image, the hook or the file and `hostler apply -f FILE`: a changed file is tried at once; "+
				"`hostler events --workload %s --type hook.failed,container` says more", s.Workload),
		}
		if s.Containers[pool.Idle] == 0 {
			f.Severity = Error // nobody can claim
		}
		v.addFinding(f)
	}
	return nil
}

// runEndGrace is how long after its timeout a hook's end may be on record.
const runEndGrace = time.Minute

func (v *examination) stuckRuns(ctx context.Context) error {
	running, err := v.Records.Runs(ctx, hooks.RunFilter{States: []hooks.RunState{hooks.Running}})
	if err != nil {
		return err
	}
	for _, r := range running {
		timeout := v.timeout(ctx, r)
		if v.now.Sub(r.StartedAt) < timeout+runEndGrace {
			continue
		}
		v.addFinding(Finding{
			Severity: Error, Workload: r.Workload, Container: r.Container, Claim: r.Claim, Tenant: r.Tenant, Run: r.ID,
			Message: fmt.Sprintf("%s hook %q has run for %s, and its timeout is %s", r.Point, r.Hook, v.age(r.StartedAt), timeout),
			Hint:    fmt.Sprintf("`hostler logs %s`; `hostler delete container %s --force` ends it with its container", r.ID, r.Container),
		})
	}
	return nil
}

// timeout is that of the hook of a run; the longest there is when its workload
// cannot be found any more.
func (v *examination) timeout(ctx context.Context, r hooks.Run) time.Duration {
	c, err := v.Records.Container(ctx, r.Container)
	if err != nil {
		return hooks.MaxTimeout
	}
	w, _, err := v.Catalog.Revision(ctx, r.Workload, c.Revision)
	if err != nil || r.Index >= len(w.Hooks[r.Point]) {
		return hooks.MaxTimeout
	}
	return w.Hooks[r.Point][r.Index].Timeout
}
