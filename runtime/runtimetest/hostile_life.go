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

// How long calls may take in a container under attack.
const (
	// callBound is above every bound of the contract.
	callBound = 150 * time.Second
	// readBound is for how long the state is read: servers have limits of their
	// own, and end the reading by its context as this does.
	readBound = 20 * time.Second
	// readMost is how much of it is.
	readMost = 64 << 20
	// unavailableBound is for how long the engine is said not to answer.
	unavailableBound = 20 * time.Second
)

// life is a container under attack and the tenants that it had.
type life struct {
	*campaign
	id      string
	past    []string           // markers
	attacks string             // names
	unused  map[string]reports // what a container shows that nobody has used
	wiped   time.Time          // when the last wipe began
	secret  string             // what the state of every tenant holds
}

// reports are what the main process and hooks observe.
type reports = map[string]string

// reachedError is what no release may end in.
type reachedError struct{ what string }

func (e *reachedError) Error() string { return e.what }

// verdict is what an error that a flow would see makes of the container.
func verdict(err error) (result, detail string) {
	var bad *reachedError
	if errors.As(err, &bad) {
		return reached, bad.what
	}
	return tainted, err.Error()
}

// newLife makes a container as pools do, and looks at it as the tenant will who
// comes after somebody else.
func (c *campaign) newLife(t *testing.T) *life {
	t.Helper()
	user := 0
	if c.way.user == "other" {
		user = otherUser
	}
	spec := c.Attacked(t, user)
	spec.Command, spec.Workdir, spec.ReadOnly = []string{"/app/server", "serve"}, "/data", c.way.readOnly
	spec.User = fmt.Sprintf("%d:%d", user, user)
	spec.Limits = runtime.Limits{PIDs: 256, Memory: 256 << 20, CPUs: 1}
	spec.Volumes = []runtime.Volume{
		{Name: "data", Target: "/data"}, {Name: "inner", Target: "/data/nest/inner"},
		{Name: "state", Target: "/srv/app/state"},
	}
	if !c.Facts.OneUser { // else nothing keeps the workload from writing to it
		spec.Volumes = append(spec.Volumes, runtime.Volume{Name: "ro", Target: "/ro", ReadOnly: true})
	}
	l := &life{campaign: c, id: spec.ID, secret: rand.Text()}
	require.NoError(t, c.rt.Create(t.Context(), spec), "Create")
	c.current = l // so that it is destroyed whatever happens
	require.NoError(t, c.rt.Start(t.Context(), l.id), "Start")
	require.NoError(t, c.rt.Seal(t.Context(), l.id, 1), "Seal")
	err := l.recycle()
	if c.Facts.Unprovable && errors.Is(err, runtime.ErrNotClean) {
		t.Logf("no used container is given to another tenant here: %v", err)
		require.NoError(t, l.call("Restart", func(ctx context.Context) error { return c.rt.Restart(ctx, l.id, 1) }))
		return l
	}
	require.NoError(t, err, "recycle a container that nobody has used")
	unused, seen, err := l.look(attack{}, "")
	require.NoError(t, err, "look")
	require.Empty(t, seen)
	for view, facts := range unused {
		require.Zero(t, strings.Trim(facts["/proc/self/status CapEff"]+facts["/proc/self/status CapPrm"], "0"), "capabilities of %s", view)
		require.Equal(t, "1", facts["/proc/self/status NoNewPrivs"], "of %s", view)
	}
	l.unused = unused
	return l
}

// destroy ends the container, as a pool does with one that it gives up.
func (l *life) destroy(t *testing.T) {
	t.Helper()
	begun := time.Now()
	Destroy(t, l.rt, l.id)
	require.Less(t, time.Since(begun), callBound, "Destroy")
	_, err := l.rt.Status(context.WithoutCancel(t.Context()), l.id)
	require.ErrorIs(t, err, runtime.ErrNotFound, "Status of what was destroyed")
}

// call makes one call, again for as long as the engine is said not to answer.
func (l *life) call(what string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), callBound)
	defer cancel()
	begun := time.Now()
	err := f(ctx)
	for errors.Is(err, runtime.ErrUnavailable) && time.Since(begun) < unavailableBound {
		<-time.After(time.Second)
		err = f(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return &reachedError{fmt.Sprintf("%s did not end in %s: %v", what, callBound, err)}
	case errors.Is(err, runtime.ErrUnavailable) && !errors.Is(err, runtime.ErrUnresponsive):
		return &reachedError{fmt.Sprintf("%s says for %s that the engine does not answer: %v", what, unavailableBound, err)}
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// attack has the main process attack. That the order fails may be the attack.
func (l *life) attack(a attack) {
	marker := "mk" + strings.ToLower(rand.Text())
	l.past = append(l.past, marker)
	r, err := l.order(order{Do: "attack", Attack: a.Name, Marker: marker})
	switch {
	case err != nil:
		l.record.note(a, l.way, "the order: "+err.Error())
	case r.Refused != "":
		l.record.note(a, l.way, "refused: "+r.Refused)
	}
	if a.Parting {
		<-time.After(500 * time.Millisecond) // the attack's own time
	}
}

// release is what a release does in the container of the tenant that attacked.
func (l *life) release(a attack) error {
	if a.State {
		if err := l.readState(); err != nil {
			return err
		}
	}
	return l.call("Restart", func(ctx context.Context) error { return l.rt.Restart(ctx, l.id, 1) })
}

// readState reads as much of the state as there is in the time that there is.
// An error is the release's to tell, not one of the next tenant.
func (l *life) readState() error {
	ctx, cancel := context.WithTimeout(context.Background(), readBound)
	defer cancel()
	begun := time.Now()
	text, err := l.getState(ctx)
	if took := time.Since(begun); took > 2*readBound {
		return &reachedError{fmt.Sprintf("GetFiles ended %s after it was begun, with %s to end: %v", took, readBound, err)}
	}
	if l.way.user != "root" && strings.Contains(text, rootOnly) {
		return &reachedError{"the state holds what only root may read"}
	}
	if strings.Contains(text, `"token_hash":"`) {
		return &reachedError{"the state holds the shim's settings"}
	}
	return nil
}

func (l *life) getState(ctx context.Context) (string, error) {
	stream, err := l.rt.GetFiles(ctx, l.id, "/data/state")
	if err != nil {
		return "", err
	}
	defer stream.Close()
	var text strings.Builder
	_, err = io.CopyN(&text, stream, readMost)
	return text.String(), err
}

// recycle makes the container the next tenant's, as a claim does.
func (l *life) recycle() error {
	l.wiped = time.Now()
	if err := l.call("Wipe", func(ctx context.Context) error { return l.rt.Wipe(ctx, l.id, 1) }); err != nil {
		return err
	}
	err := l.call("PutFiles", func(ctx context.Context) error {
		return l.rt.PutFiles(ctx, l.id, "/data", packed(l.secret))
	})
	if err != nil {
		return err
	}
	return l.call("Restart", func(ctx context.Context) error { return l.rt.Restart(ctx, l.id, 1) })
}
