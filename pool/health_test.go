package pool

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/workload"
)

// unusedContainers has the methods of the store that are not called.
type unusedContainers = Containers

// singleContainerStore is a store with one container, or with an error.
type singleContainerStore struct {
	unusedContainers
	c         Container
	lookupErr error
}

func (o singleContainerStore) Container(context.Context, string) (Container, error) {
	return o.c, o.lookupErr
}

// A container that was destroyed before it was watched is not checked
// indefinitely; one whose record cannot be read is still checked.
func TestHealthCheckerForgetsDestroyed(t *testing.T) {
	tests := map[string]struct {
		state     State
		err       error
		isWatched bool
	}{
		"idle":       {Idle, nil, true},
		"claimed":    {Claimed, nil, true},
		"destroying": {Destroying, nil, false},
		"destroyed":  {Destroyed, nil, false},
		"unknown":    {"", ErrContainerNotFound, false},
		"unreadable": {"", errors.New("disk full"), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rt := fake.New()
			rt.Break("exec", runtime.ErrUnavailable)
			c := NewHealthChecker(rt, singleContainerStore{c: Container{ID: "c", State: tt.state}, lookupErr: tt.err}, nil, slog.New(slog.DiscardHandler))
			c.Watch("c", &workload.Workload{Healthcheck: &workload.Healthcheck{Interval: time.Hour}}, time.Time{})
			require.True(t, c.isDue("c"))
			c.probe(t.Context(), "c")
			require.Equal(t, tt.isWatched, len(c.watched) == 1)
		})
	}
}

// UpdateContainer checks that the change leaves an exited container as it is.
func (o singleContainerStore) UpdateContainer(_ context.Context, m Transition) (Container, error) {
	c := o.c
	if m.Set != nil {
		m.Set(&c)
	}
	if c.Health != o.c.Health || c.Reason != o.c.Reason {
		return c, errors.New("it was changed")
	}
	return c, nil
}

// The result of a check does not replace a record that is newer: that the
// container has exited, or is destroyed by force.
func TestHealthCheckKeepsExit(t *testing.T) {
	c := NewHealthChecker(fake.New(), singleContainerStore{c: Container{ID: "c", State: Claimed, Health: Exited, Reason: "it exited"}}, nil, slog.New(slog.DiscardHandler))
	w := &workload.Workload{Healthcheck: &workload.Healthcheck{Interval: time.Hour}}
	require.NoError(t, c.applyResult(t.Context(), Container{ID: "c", State: Claimed, Health: Unhealthy}, w, nil, 0))
	require.NoError(t, c.applyResult(t.Context(), Container{ID: "c", State: Claimed, Health: Healthy}, w, errors.New("it failed"), 1))
}

// Of concurrent requests to destroy a container, the one without its hooks
// counts, also if another reads the record before it and writes after it.
func TestForceIsNotWeakened(t *testing.T) {
	for _, stronger := range []Forced{ForcedNow, ForcedDone} {
		m, err := destruction(Container{ID: "c", State: Claimed}, true, ForcedAfterHooks)
		require.NoError(t, err)
		c := Container{ID: "c", State: Claimed, Forced: stronger}
		m.Set(&c)
		require.Equal(t, stronger, c.Forced)
	}
}

// brokenWorkloads is a store whose revisions cannot be read.
type brokenWorkloads struct {
	catalogStore
	err error
}

func (b brokenWorkloads) Revision(context.Context, string, string) (Record, error) {
	return Record{}, b.err
}

// A container is not destroyed without its hooks because its workload cannot be
// read at the moment.
func TestUnreadableWorkloadIsRetried(t *testing.T) {
	for _, test := range []struct {
		err       error
		forced    Forced
		destroyed bool
	}{
		{errors.New("disk full"), NotForced, false}, {errors.New("disk full"), ForcedAfterHooks, false},
		{errors.New("disk full"), ForcedNow, true}, {ErrWorkloadNotFound, NotForced, true},
	} {
		rt, log := fake.New(), slog.New(slog.DiscardHandler)
		require.NoError(t, rt.Create(t.Context(), runtime.Spec{ID: "c", Image: "box", Command: []string{"box", "idle"}}))
		s := singleContainerStore{c: Container{ID: "c", State: Destroying, Forced: test.forced, Health: Exited}}
		p := NewProvisioner(s, rt, nil, NewHealthChecker(rt, s, nil, log), log)
		err := NewReaper(s, NewCatalog(brokenWorkloads{err: test.err}), p, log).destroy(t.Context(), "c", func() {})
		_, statusErr := rt.Status(t.Context(), "c")
		if test.destroyed {
			require.NoError(t, err)
			require.ErrorIs(t, statusErr, runtime.ErrNotFound)
			continue
		}
		require.ErrorIs(t, err, test.err)
		require.NoError(t, statusErr)
	}
}
