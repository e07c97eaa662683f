package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// strangers are containers that carry this installation's label and have no
// live record.
func (v *visit) strangers(ctx context.Context) error {
	for _, s := range v.there {
		c, err := v.Records.Container(ctx, s.ID)
		if err != nil && !errors.Is(err, pool.ErrNoContainer) {
			return err
		}
		if err == nil && c.State != pool.Gone {
			continue
		}
		// It may have been removed since the list was taken.
		if _, err := v.Engine.Status(ctx, s.ID); errors.Is(err, runtime.ErrNotFound) {
			continue
		}
		v.found(Finding{
			Severity: Warning, Workload: s.Workload, Container: s.ID,
			Message: fmt.Sprintf("the engine has container %s, which was made here and is not known any more", s.ID),
			Remedy:  "wait a minute: a server that runs removes it, unless its database is the wrong one or an old copy; if so, stop it",
		})
	}
	return nil
}

// missing are containers that should run and do not, and that nobody has
// noticed.
func (v *visit) missing(ctx context.Context) error {
	if v.blind {
		return nil
	}
	runs := map[string]bool{}
	for _, s := range v.there {
		runs[s.ID] = s.State == runtime.Running
	}
	rows, err := v.Records.Containers(ctx, pool.ContainerFilter{States: []pool.State{pool.Idle, pool.Claimed}})
	if err != nil {
		return err
	}
	for _, c := range rows {
		if runs[c.ID] || c.Health == pool.Dead {
			continue
		}
		// It may have been made, started or given up since the list was taken.
		s, err := v.Engine.Status(ctx, c.ID)
		if err == nil && s.State == runtime.Running {
			continue
		}
		if err != nil && !errors.Is(err, runtime.ErrNotFound) {
			return err
		}
		now, err := v.Records.Container(ctx, c.ID)
		if err != nil || now.State != c.State || now.Health == pool.Dead {
			continue
		}
		f := Finding{
			Severity: Error, Workload: c.Workload, Container: c.ID, Claim: c.Claim, Tenant: c.Tenant,
			Message: fmt.Sprintf("container %s is %s in the database and does not run on the engine", c.ID, c.State),
			Remedy:  fmt.Sprintf("`hostler delete container %s`: another is made", c.ID),
		}
		if c.State == pool.Claimed {
			f.Remedy = fmt.Sprintf("`hostler release %s`, and have the tenant claim again", c.Claim)
		}
		v.found(f)
	}
	return nil
}

// ill are claimed containers that are of no use to their tenants any more.
func (v *visit) ill(ctx context.Context) error {
	rows, err := v.Records.Containers(ctx, pool.ContainerFilter{States: []pool.State{pool.Claimed}})
	if err != nil {
		return err
	}
	for _, c := range rows {
		if c.Health != pool.Dead && c.Health != pool.Unhealthy {
			continue
		}
		v.found(Finding{
			Severity: Error, Workload: c.Workload, Container: c.ID, Claim: c.Claim, Tenant: c.Tenant,
			Message: fmt.Sprintf("container %s of tenant %s is %s: %s", c.ID, c.Tenant, c.Health, c.Reason),
			Remedy:  fmt.Sprintf("`hostler logs --container %s` says why; `hostler release %s`, and have the tenant claim again", c.ID, c.Claim),
		})
	}
	return nil
}

// longMaking is how long the making or the removal of a container may take. A
// large image, or hooks, may take minutes.
const longMaking = 15 * time.Minute

// onTheWay is what to do about a container that does not get out of a state.
var onTheWay = map[pool.State]string{
	pool.Creating: "`hostler events --container %[1]s --after 0` says how far it is; a restart of `hostler serve` gives it up and makes another",
	pool.Destroying: "`hostler get runs --point pre_destroy --workload %[2]s` says whether a hook hangs, the server's log whether the engine refuses; " +
		"once it is removed from the engine, by whatever means, it is gone here too",
}

func (v *visit) stuckContainers(ctx context.Context) error {
	rows, err := v.Records.Containers(ctx, pool.ContainerFilter{States: []pool.State{pool.Creating, pool.Destroying}})
	if err != nil {
		return err
	}
	for _, c := range rows {
		if v.now.Sub(c.ChangedAt) < longMaking {
			continue
		}
		v.found(Finding{
			Severity: Warning, Workload: c.Workload, Container: c.ID,
			Message: fmt.Sprintf("container %s has been %s for %s", c.ID, c.State, v.age(c.ChangedAt)),
			Remedy:  fmt.Sprintf(onTheWay[c.State], c.ID, c.Workload),
		})
	}
	return nil
}
