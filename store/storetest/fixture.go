package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Names that most tests use.
const (
	web       = "web" // a workload
	rev       = "r"   // its current revision
	oldRev    = "r0"
	unlimited = 1 << 30 // a bound that is never reached
)

var endpoint = runtime.Endpoint{Host: "172.18.0.7", Ports: []int{80, 443}}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// PutWorkloads puts the records of the workloads that have none, without an event:
// containers are only added to workloads that exist.
func PutWorkloads(t testing.TB, s pool.Workloads, ids ...string) {
	t.Helper()
	for _, id := range ids {
		_, err := s.Workload(t.Context(), id)
		if errors.Is(err, pool.ErrWorkloadNotFound) {
			err = s.PutWorkload(t.Context(), pool.Record{ID: id, Revision: rev, Source: []byte("id: " + id + "\nimage: box\n"), MaxSize: unlimited})
		}
		require.NoError(t, err)
	}
}

// putRevision puts a revision of web that is not on record, as one that was current
// before.
func putRevision(t *testing.T, s Store, revision string) {
	t.Helper()
	if _, err := s.Revision(t.Context(), web, revision); err == nil {
		return
	}
	current, err := s.Workload(t.Context(), web)
	require.NoError(t, err)
	former := current
	former.Revision, former.Source = revision, []byte("id: "+web+"\nimage: former\n")
	putWorkload(t, s, former)
	putWorkload(t, s, current)
}

// removeWorkload removes a workload that has no container, as its deletion does.
func removeWorkload(t *testing.T, s Store, id string) {
	t.Helper()
	r, err := s.Workload(t.Context(), id)
	require.NoError(t, err)
	r.Draining, r.Deleting = true, true
	require.NoError(t, s.PutWorkload(t.Context(), r))
	require.NoError(t, s.RemoveWorkload(t.Context(), id))
}

// addContainer adds a container of web that is being created.
func addContainer(t *testing.T, s Store, revision string) string {
	t.Helper()
	PutWorkloads(t, s, web)
	putRevision(t, s, revision)
	id := newID()
	require.NoError(t, s.AddContainer(t.Context(), pool.Container{ID: id, Workload: web, Revision: revision}, unlimited))
	return id
}

// addIdleContainer adds an idle container of web that holds the tenant's data.
func addIdleContainer(t *testing.T, s Store, revision, tenant string) string {
	t.Helper()
	id := addContainer(t, s, revision)
	_, err := s.UpdateContainer(t.Context(), idleTransition(id, tenant))
	require.NoError(t, err)
	return id
}

// idleTransition makes a new container idle.
func idleTransition(id, tenant string) pool.Transition {
	return pool.Ready(id, func(c *pool.Container) { c.Endpoint, c.Health, c.Tenant = endpoint, pool.Healthy, tenant })
}

// newReservation returns a reservation of web for a tenant, with a new claim.
func newReservation(tenant string) claim.Reservation {
	return claim.Reservation{
		Claim: newID(), Workload: web, Tenant: tenant, Revision: rev, Reuse: workload.ReuseWipe,
	}
}

// activeTransition, releasingTransition and releasedTransition are the
// transitions of a claim's life.
func activeTransition(id string) claim.Transition {
	return claim.Activate(id, claim.Fresh, nil)
}

func releasingTransition(id string) claim.Transition {
	return claim.BeginRelease(id, "test", false)
}

func releasedTransition(id string) claim.Transition {
	m := claim.Finish(id, activity.ClaimReleasedData{Reason: "test"})
	container := pool.Return("test", func(*pool.Container) {})
	m.Container = &container
	return m
}

// destroyingTransition and destroyedTransition are the transitions at the end
// of a container's life.
func destroyingTransition(id string) pool.Transition {
	return pool.BeginDestroy(id, []pool.State{pool.Creating, pool.Idle, pool.Claimed}, "test")
}

func destroyedTransition(id string) pool.Transition {
	return pool.Transition{
		ID: id, From: []pool.State{pool.Destroying}, To: pool.Destroyed,
		Events: []activity.Event{{Type: activity.ContainerDestroyed, Message: "destroyed"}},
	}
}

// addActiveClaim adds a claim and makes it active.
func addActiveClaim(t *testing.T, s Store, tenant string) claim.Claim {
	t.Helper()
	c, err := s.Reserve(t.Context(), newReservation(tenant))
	require.NoError(t, err)
	c, err = s.UpdateClaim(t.Context(), activeTransition(c.ID))
	require.NoError(t, err)
	return c
}

// mustUpdateClaim makes a change to a claim that must succeed.
func mustUpdateClaim(t *testing.T, s Store, m claim.Transition) claim.Claim {
	t.Helper()
	c, err := s.UpdateClaim(t.Context(), m)
	require.NoError(t, err)
	return c
}

// mustUpdateContainer makes a change to a container that must succeed.
func mustUpdateContainer(t *testing.T, s Store, m pool.Transition) pool.Container {
	t.Helper()
	c, err := s.UpdateContainer(t.Context(), m)
	require.NoError(t, err)
	return c
}

// events returns all events after a number.
func events(t *testing.T, s Store, f activity.Filter, after int64) []activity.Event {
	t.Helper()
	all, err := eventsAfter(t.Context(), s, f, after)
	require.NoError(t, err)
	return all
}

func eventsAfter(ctx context.Context, s Store, f activity.Filter, after int64) ([]activity.Event, error) {
	var all []activity.Event
	for {
		p, err := s.Events(ctx, f, after, 0)
		if err != nil || len(p.Items) == 0 {
			return all, err
		}
		all, after = append(all, p.Items...), p.Next
	}
}

// eventTypes returns the types of events.
func eventTypes(all []activity.Event) []activity.Type {
	var ts []activity.Type
	for _, e := range all {
		ts = append(ts, e.Type)
	}
	return ts
}

// lastSeq returns the newest number.
func lastSeq(t *testing.T, s Store) int64 {
	t.Helper()
	n, err := s.LastSeq(t.Context())
	require.NoError(t, err)
	return n
}

// requireLogMatchesRecords checks that the records and the log agree: the last
// event of each container and each claim matches its state, and nothing is on
// one side only.
func requireLogMatchesRecords(t *testing.T, s Store) {
	t.Helper()
	stateInLog := map[string]string{}
	for _, e := range events(t, s, activity.Filter{}, 0) {
		if state, ok := containerStateOf[e.Type]; ok {
			stateInLog[e.Container] = string(state)
		}
		if state, ok := claimStateOf[e.Type]; ok {
			stateInLog[e.Claim] = string(state)
		}
	}
	have := map[string]string{}
	containers, err := s.Containers(t.Context(), pool.ContainerFilter{States: pool.States()})
	require.NoError(t, err)
	for _, c := range containers {
		have[c.ID] = string(c.State)
	}
	claims, err := s.Claims(t.Context(), claim.Filter{States: claim.States()})
	require.NoError(t, err)
	for _, c := range claims {
		have[c.ID] = string(c.State)
	}
	require.Equal(t, stateInLog, have, "the log, and the records")
}

var containerStateOf = map[activity.Type]pool.State{
	activity.ContainerCreating: pool.Creating, activity.ContainerCreated: pool.Idle,
	activity.ContainerClaimed: pool.Claimed, activity.ContainerReleased: pool.Idle,
	activity.ContainerDestroying: pool.Destroying, activity.ContainerDestroyed: pool.Destroyed,
}

var claimStateOf = map[activity.Type]claim.State{
	activity.ClaimRequested: claim.Pending, activity.ClaimActivated: claim.Active,
	activity.ClaimReleasing: claim.Releasing, activity.ClaimReleased: claim.Released,
	activity.ClaimFailed: claim.Failed, activity.ClaimReleaseFailed: claim.ReleaseFailed,
}
