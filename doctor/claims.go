package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
)

// failedReleases finds claims that keep their containers because their tenants'
// state could not be uploaded.
func (v *examination) failedReleases(ctx context.Context) error {
	claims, err := v.Records.Claims(ctx, claim.Filter{States: []claim.State{claim.ReleaseFailed}})
	if err != nil {
		return err
	}
	for _, c := range claims {
		f := v.describeClaim(c)
		f.Severity = Error
		f.Message = fmt.Sprintf("claim %s of tenant %s keeps its container after %s: %s", c.ID, c.Tenant, counted(c.Failures, "consecutive failed release"), c.Reason)
		fix := releaseHints[c.FailureReason]
		if problem, ok := stateProblemOf(c); ok {
			fix = hintFor(problem.upload, c)
		}
		f.Hint = fix + fmt.Sprintf("; `hostler release %[1]s` retries at once, and `hostler release %[1]s --discard` discards the state", c.ID)
		v.addFinding(f)
	}
	return nil
}

// releaseHints are the hints by the reason of a failed release.
var releaseHints = map[claim.FailureReason]string{
	"":                    "fix the sink",
	claim.FailedBySink:    "fix the sink",
	claim.FailedByTenant:  "find out why the container cannot be read; it is destroyed after the pool's release_failed_ttl",
	claim.FailedByVersion: "start a server of a version between this one's and the container's, which can release it",
	claim.FailedStale:     "a later claim of the tenant, perhaps of another installation or before a restore, has uploaded its state, which is never overwritten: save what is needed manually",
}

// retainedContainers finds pools with so many failed releases that they reduce
// the room for others.
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
			Message: fmt.Sprintf("%d containers of %s are retained after failed releases; those beyond max_size (%d) reduce the room for others", s.Kept, s.Workload, s.MaxSize),
			Hint: fmt.Sprintf("`hostler get claims --failed --workload %[1]s` shows the reasons; fix them, or discard states with `hostler release CLAIM --discard`; "+
				"`hostler scale %[1]s --max-size N` makes room in the meantime", s.Workload),
		})
	}
	return nil
}

// newerContainers finds pools with containers that a newer server created.
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
			Message: fmt.Sprintf("%s of %s made by a newer server %s unchanged: this server does not support that protocol",
				counted(s.Newer, "container"), s.Workload, map[bool]string{true: "remains", false: "remain"}[s.Newer == 1]),
			Hint: "finish the upgrade of the servers; to stay with this version, start the newer one again, drain the pool and release its claims there first",
		})
	}
	return nil
}

// stuckClaimAge is how long the creation or the release of a claim may take:
// the maximum wait for a container, and hooks.
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
		f.Hint = fmt.Sprintf("`hostler events --claim %s --after 0` shows its progress; `hostler release %s` ", c.ID, c.ID) +
			map[claim.State]string{claim.Pending: "ends it", claim.Releasing: "waits for its end and shows what blocks it"}[c.State]
		v.addFinding(f)
	}
	return nil
}

// maxClaimEvents is more than the number of a claim's events of one type.
const maxClaimEvents = 1000

// since returns when a claim entered its state.
func (v *examination) since(ctx context.Context, c claim.Claim) (time.Time, error) {
	if c.State == claim.Pending {
		return c.CreatedAt, nil
	}
	page, err := v.Records.Events(ctx, activity.Filter{Types: []activity.Type{activity.ClaimReleasing}, Claim: c.ID}, 0, maxClaimEvents)
	if err != nil {
		return time.Time{}, err
	}
	if len(page.Items) == 0 {
		return c.CreatedAt, nil // it is older than the log's retention
	}
	return page.Items[len(page.Items)-1].Time, nil
}

func (v *examination) describeClaim(c claim.Claim) Finding {
	return Finding{Severity: Warning, Workload: c.Workload, Container: c.Container, Claim: c.ID, Tenant: c.Tenant}
}

// failureDetails returns where the details of the last failed creation are: in the
// output of its hook, in that of its main process, or in the events.
func (v *examination) failureDetails(ctx context.Context, s pool.Status) (Finding, error) {
	id := s.Fill.LastContainer
	if id == "" { // an older server has counted the failure
		return Finding{Hint: fmt.Sprintf("`hostler events --workload %s --type hook.failed,container` shows details", s.Workload)}, nil
	}
	runs, err := v.Records.Runs(ctx, hooks.RunFilter{Container: id, NoOutput: true})
	if err != nil {
		return Finding{}, err
	}
	for _, r := range slices.Backward(runs) {
		if r.State != hooks.Succeeded && r.State != hooks.Skipped {
			return Finding{Container: id, Run: r.ID, Hint: fmt.Sprintf("`hostler logs %s` shows what the hook printed", r.ID)}, nil
		}
	}
	c, err := v.Records.Container(ctx, id)
	if err != nil && !errors.Is(err, pool.ErrContainerNotFound) {
		return Finding{}, err
	}
	if c.Output == pool.NoOutput { // its image could not be pulled, or it printed nothing
		return Finding{Container: id, Hint: fmt.Sprintf("`hostler events --container %s --after 0` shows its steps", id)}, nil
	}
	return Finding{Container: id, Hint: fmt.Sprintf("`hostler logs --container %s` shows what it printed", id)}, nil
}

// failingPools finds pools whose containers cannot be created.
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
			Message: fmt.Sprintf("the last container creation of %s failed: %s", s.Workload, s.Fill.LastError),
			Hint:    "fix the image, the hook or the file and `hostler apply -f FILE`: a changed file is tried at once; ",
		}
		if s.Fill.Failures > 1 {
			f.Message = fmt.Sprintf("the last %d container creations of %s failed: %s", s.Fill.Failures, s.Workload, s.Fill.LastError)
		}
		details, err := v.failureDetails(ctx, s)
		if err != nil {
			return err
		}
		f.Container, f.Run = details.Container, details.Run
		f.Hint += details.Hint
		if s.Containers[pool.Idle] == 0 {
			f.Severity = Error // no tenant can claim
		}
		v.addFinding(f)
	}
	return nil
}

// RunEndGrace is how long after its timeout the end of a hook may be recorded.
const RunEndGrace = time.Minute

func (v *examination) stuckRuns(ctx context.Context) error {
	running, err := v.Records.Runs(ctx, hooks.RunFilter{States: []hooks.RunState{hooks.Running}})
	if err != nil {
		return err
	}
	for _, r := range running {
		timeout := v.HookTimeout(ctx, r)
		if v.now.Sub(r.StartedAt) < timeout+RunEndGrace {
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

// HookTimeout returns the timeout of a run's hook, or the maximum when its workload
// no longer exists.
func (d *Doctor) HookTimeout(ctx context.Context, r hooks.Run) time.Duration {
	c, err := d.Records.Container(ctx, r.Container)
	if err != nil {
		return hooks.MaxTimeout
	}
	w, _, err := d.Catalog.Revision(ctx, r.Workload, c.Revision)
	if err != nil {
		return hooks.MaxTimeout
	}
	list := w.HooksAt(r.Point, c.ImageHooks)
	if r.Index >= len(list) {
		return hooks.MaxTimeout
	}
	return list[r.Index].Timeout
}
