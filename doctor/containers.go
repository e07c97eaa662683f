package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// unknownContainers finds containers that have this installation's label and no
// live record.
func (v *examination) unknownContainers(ctx context.Context) error {
	for _, s := range v.engineContainers {
		c, err := v.Records.Container(ctx, s.ID)
		if err != nil && !errors.Is(err, pool.ErrContainerNotFound) {
			return err
		}
		if err == nil && c.State != pool.Destroyed {
			continue
		}
		// It may have been removed since the list was taken.
		if _, err := v.Engine.Status(ctx, s.ID); errors.Is(err, runtime.ErrNotFound) {
			continue
		}
		v.addFinding(Finding{
			Severity: Warning, Workload: s.Workload, Container: s.ID,
			Message: fmt.Sprintf("the engine has container %s, which this installation created and which has no record any more", s.ID),
			Hint:    "wait a minute: a running server removes it; if its database is the wrong one or an old copy, stop the server at once",
		})
	}
	return nil
}

// missingContainers finds containers that should run and do not, and whose exit
// was not observed.
func (v *examination) missingContainers(ctx context.Context) error {
	if v.engineUnavailable {
		return nil
	}
	runs := map[string]bool{}
	for _, s := range v.engineContainers {
		runs[s.ID] = s.State == runtime.Running
	}
	rows, err := v.Records.Containers(ctx, pool.ContainerFilter{States: []pool.State{pool.Idle, pool.Claimed}})
	if err != nil {
		return err
	}
	for _, c := range rows {
		if runs[c.ID] || c.Health == pool.Exited {
			continue
		}
		// It may have been created, started or destroyed since the list was
		// taken.
		s, err := v.Engine.Status(ctx, c.ID)
		if err == nil && s.State == runtime.Running {
			continue
		}
		if err != nil && !errors.Is(err, runtime.ErrNotFound) {
			return err
		}
		now, err := v.Records.Container(ctx, c.ID)
		if err != nil || now.State != c.State || now.Health == pool.Exited {
			continue
		}
		f := Finding{
			Severity: Error, Workload: c.Workload, Container: c.ID, Claim: c.Claim, Tenant: c.Tenant,
			Message: fmt.Sprintf("container %s is %s in the database and does not run on the engine", c.ID, c.State),
			Hint:    fmt.Sprintf("`hostler delete container %s`: another is created", c.ID),
		}
		if c.State == pool.Claimed {
			f.Hint = fmt.Sprintf("`hostler release %s`, and have the tenant claim again", c.Claim)
		}
		v.addFinding(f)
	}
	return nil
}

// unhealthyContainers finds claimed containers that have exited or are
// unhealthy.
func (v *examination) unhealthyContainers(ctx context.Context) error {
	rows, err := v.Records.Containers(ctx, pool.ContainerFilter{States: []pool.State{pool.Claimed}})
	if err != nil {
		return err
	}
	for _, c := range rows {
		if c.Health != pool.Exited && c.Health != pool.Unhealthy {
			continue
		}
		v.addFinding(Finding{
			Severity: Error, Workload: c.Workload, Container: c.ID, Claim: c.Claim, Tenant: c.Tenant,
			Message: fmt.Sprintf("container %s of tenant %s is %s: %s", c.ID, c.Tenant, c.Health, c.Reason),
			Hint:    unhealthyHint(c),
		})
	}
	return nil
}

// unhealthyHint returns the hint for a claimed container that is not healthy.
// Nothing is left of one that an operator destroyed.
func unhealthyHint(c pool.Container) string {
	hint := fmt.Sprintf("`hostler release %s`, and have the tenant claim again", c.Claim)
	if c.Forced == pool.NotForced || c.Output == pool.OutputKept {
		hint = fmt.Sprintf("`hostler logs --container %s` shows what it printed; ", c.ID) + hint
	}
	return hint
}

// stuckContainerAge is how long the creation or the removal of a container may
// take. A large image, or hooks, may take minutes.
const stuckContainerAge = 15 * time.Minute

// transitionHints are the hints for containers that stay in a transitional
// state.
var transitionHints = map[pool.State]string{
	pool.Creating: "`hostler events --container %[1]s --after 0` shows its progress; a restart of `hostler serve` discards it and creates another",
	pool.Destroying: "`hostler get runs --point pre_destroy --workload %[2]s` shows whether a hook hangs, the server's log whether the engine refuses; " +
		"once it is removed from the engine, by any means, its record is destroyed too",
}

func (v *examination) stuckContainers(ctx context.Context) error {
	rows, err := v.Records.Containers(ctx, pool.ContainerFilter{States: []pool.State{pool.Creating, pool.Destroying}})
	if err != nil {
		return err
	}
	for _, c := range rows {
		if v.now.Sub(c.ChangedAt) < stuckContainerAge {
			continue
		}
		v.addFinding(Finding{
			Severity: Warning, Workload: c.Workload, Container: c.ID,
			Message: fmt.Sprintf("container %s has been %s for %s", c.ID, c.State, v.age(c.ChangedAt)),
			Hint:    fmt.Sprintf(transitionHints[c.State], c.ID, c.Workload),
		})
	}
	return nil
}
