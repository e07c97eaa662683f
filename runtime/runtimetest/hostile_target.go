package runtimetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// The timeouts of calls in a container under attack.
const (
	// callTimeout is above every bound of the contract.
	callTimeout = 150 * time.Second
	// readTimeout bounds the reading of the state: servers have limits of their
	// own, and end the reading by its context as this does.
	readTimeout = 20 * time.Second
	// maxStateRead bounds how much of it is read, in bytes.
	maxStateRead = 64 << 20
	// unavailableTimeout bounds how long calls may return ErrUnavailable.
	unavailableTimeout = 20 * time.Second
)

// target is a container under attack and its tenants so far.
type target struct {
	*campaign
	id      string
	markers []string           // markers
	attacks string             // names
	unused  map[string]reports // what an unused container shows
	wiped   time.Time          // when the last wipe began
	secret  string             // the content of every tenant's state
}

// reports are what the main process and hooks observe.
type reports = map[string]string

// reachedError is an error that no release may return.
type reachedError struct{ what string }

func (e *reachedError) Error() string { return e.what }

// classify returns the result for an error that a flow would get.
func classify(err error) (result, detail string) {
	var bad *reachedError
	if errors.As(err, &bad) {
		return reached, bad.what
	}
	return tainted, err.Error()
}

// newTarget creates a container as pools do, and observes it as the tenant after
// another one will.
func (c *campaign) newTarget(t *testing.T) *target {
	t.Helper()
	user := 0
	if c.variant.user == "other" {
		user = otherUser
	}
	spec := c.AttackedSpec(t, user)
	spec.Command, spec.Workdir, spec.ReadOnly = []string{"/app/server", "serve"}, "/data", c.variant.readOnly
	spec.User = fmt.Sprintf("%d:%d", user, user)
	spec.Limits = runtime.Limits{PIDs: 256, Memory: 256 << 20, CPUs: 1}
	spec.Volumes = []runtime.Volume{
		{Name: "data", Target: "/data"}, {Name: "inner", Target: "/data/nest/inner"},
		{Name: "state", Target: "/srv/app/state"},
	}
	if !c.Limitations.SingleUser { // else nothing prevents the workload from writing to it
		spec.Volumes = append(spec.Volumes, runtime.Volume{Name: "ro", Target: "/ro", ReadOnly: true})
	}
	l := &target{campaign: c, id: spec.ID, secret: rand.Text()}
	require.NoError(t, c.rt.Create(t.Context(), spec), "Create")
	c.target = l // so that it is destroyed whatever happens
	require.NoError(t, c.rt.Start(t.Context(), l.id, 1), "Start")
	require.NoError(t, c.rt.RecordBaseline(t.Context(), l.id, 1), "Seal")
	err := l.recycle()
	if c.Limitations.WipeUnverifiable && errors.Is(err, runtime.ErrWipeUnverified) {
		t.Logf("no used container goes to another tenant here: %v", err)
		require.NoError(t, l.call("Restart", func(ctx context.Context) error { return c.rt.Restart(ctx, l.id, 1) }))
		return l
	}
	require.NoError(t, err, "recycle an unused container")
	unused, seen, err := l.observe(attack{}, "")
	require.NoError(t, err, "look")
	require.Empty(t, seen)
	for view, facts := range unused {
		require.Zero(t, strings.Trim(facts["/proc/self/status CapEff"]+facts["/proc/self/status CapPrm"], "0"), "capabilities of %s", view)
		require.Equal(t, "1", facts["/proc/self/status NoNewPrivs"], "of %s", view)
	}
	l.unused = unused
	return l
}

// destroy destroys the container, as a pool does with one that it discards.
func (l *target) destroy(t *testing.T) {
	t.Helper()
	start := time.Now()
	Destroy(t, l.rt, l.id)
	require.Less(t, time.Since(start), callTimeout, "Destroy")
	_, err := l.rt.Status(context.WithoutCancel(t.Context()), l.id)
	require.ErrorIs(t, err, runtime.ErrNotFound, "Status of what was destroyed")
}

// call makes one call, and retries while the engine is reported as unavailable.
func (l *target) call(what string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	start := time.Now()
	err := f(ctx)
	for errors.Is(err, runtime.ErrUnavailable) && time.Since(start) < unavailableTimeout {
		<-time.After(time.Second)
		err = f(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return &reachedError{fmt.Sprintf("%s did not end in %s: %v", what, callTimeout, err)}
	case errors.Is(err, runtime.ErrUnavailable) && !errors.Is(err, runtime.ErrUnresponsive):
		return &reachedError{fmt.Sprintf("%s has returned for %s that the engine is unavailable: %v", what, unavailableTimeout, err)}
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// attack has the main process attack. A failure of the order may be the attack.
func (l *target) attack(a attack) {
	marker := "mk" + strings.ToLower(rand.Text())
	l.markers = append(l.markers, marker)
	r, err := l.order(order{Do: "attack", Attack: a.Name, Marker: marker})
	switch {
	case err != nil:
		l.results.addNote(a, l.variant, "the order: "+err.Error())
	case r.Refused != "":
		l.results.addNote(a, l.variant, "refused: "+r.Refused)
	}
	if a.Parting {
		<-time.After(500 * time.Millisecond) // the attack's own time
	}
}

// release does what a release does in the container of the tenant that attacked.
func (l *target) release(a attack) error {
	if a.State {
		if err := l.readState(); err != nil {
			return err
		}
	}
	return l.call("Restart", func(ctx context.Context) error { return l.rt.Restart(ctx, l.id, 1) })
}

// readState reads as much of the state as the timeout allows. The release reports
// the error, not the next tenant.
func (l *target) readState() error {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	start := time.Now()
	text, err := l.getState(ctx)
	if elapsed := time.Since(start); elapsed > 2*readTimeout {
		return &reachedError{fmt.Sprintf("CopyOut ended after %s, with a timeout of %s: %v", elapsed, readTimeout, err)}
	}
	if l.variant.user != "root" && strings.Contains(text, rootOnly) {
		return &reachedError{"the state has content that only root may read"}
	}
	if strings.Contains(text, `"token_hash":"`) {
		return &reachedError{"the state has the shim's settings"}
	}
	return nil
}

func (l *target) getState(ctx context.Context) (string, error) {
	stream, err := l.rt.CopyOut(ctx, l.id, "/data/state")
	if err != nil {
		return "", err
	}
	defer stream.Close()
	var text strings.Builder
	_, err = io.CopyN(&text, stream, maxStateRead)
	return text.String(), err
}

// recycle prepares the container for the next tenant, as a claim does.
func (l *target) recycle() error {
	l.wiped = time.Now()
	if err := l.call("Wipe", func(ctx context.Context) error { return l.rt.Wipe(ctx, l.id, 1) }); err != nil {
		return err
	}
	err := l.call("PutFiles", func(ctx context.Context) error {
		return l.rt.CopyIn(ctx, l.id, "/data", 0, stateArchive(l.secret))
	})
	if err != nil {
		return err
	}
	return l.call("Restart", func(ctx context.Context) error { return l.rt.Restart(ctx, l.id, 1) })
}
