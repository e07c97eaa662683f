package access_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// startRig is a claim whose commands are recorded.
type startRig struct {
	*flowtest.Harness
	access *access.Service
	claim  claim.Claim
}

func inStartBubble(t *testing.T, change func(*access.Options), test func(t *testing.T, r startRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: web\nimage: box\n")
		h.RT.AddProgram("hang", func(ctx context.Context, _ *fake.Proc) int { <-ctx.Done(); return 1 })
		h.AwaitIdle("web", 1)
		r := startRig{Harness: h, claim: h.Claim("web", "ann")}
		r.access = h.Access(func(o *access.Options) {
			if change != nil {
				change(o)
			}
			recorder, stop := runRecorder(t, h.DB, known{{ID: "x"}})
			o.Uses = recorder
			t.Cleanup(stop)
		})
		test(t, r)
	})
}

// run starts a command and closes the attachment.
func (r startRig) run(t *testing.T, args ...string) (created bool, err error) {
	t.Helper()
	c, err := r.access.Start(t.Context(), r.claim.ID, access.CommandRequest{ID: "x", Args: args})
	if err != nil {
		return false, err
	}
	require.NoError(t, c.Close())
	return c.Start().Created, nil
}

// recorded returns the events of commands.
func (r startRig) recorded(t *testing.T) (all []string) {
	t.Helper()
	<-time.After(time.Second)
	for _, e := range r.Events(activity.ExecSubject, activity.ClaimReleased) {
		if e.Type.Subject() != activity.ExecSubject {
			continue
		}
		var data activity.ExecEndedData
		require.NoError(t, json.Unmarshal(e.Data, &data))
		all = append(all, fmt.Sprintf("%s %s", e.Type, data.Program))
	}
	return all
}

// A tenant who uses an ID again while the end of the earlier command with it is being
// recorded does not run a command that no event shows.
func TestIDIsUsedAgainAtOnce(t *testing.T) {
	inStartBubble(t, nil, func(t *testing.T, r startRig) {
		_, err := r.run(t, "missing")
		_, isStart := errors.AsType[*runtime.StartError](err)
		require.True(t, isStart, "%v", err)
		created, err := r.run(t, "hang")
		require.NoError(t, err)
		require.True(t, created)
		require.Equal(t, []string{"exec.started missing", "exec.failed missing", "exec.started hang"}, r.recorded(t))
		created, err = r.run(t, "hang")
		require.NoError(t, err)
		require.False(t, created, "it runs")
		r.Release(r.claim)
		require.Equal(t, []string{
			"exec.started missing", "exec.failed missing", "exec.started hang", "exec.failed hang",
		}, r.recorded(t))
	})
}

// lostStart is a container that the next start of a command does not reach.
type lostStart struct {
	access.Runtime
	lost bool
}

func (l *lostStart) OpenCommand(ctx context.Context, id string, cmd runtime.TenantCommand) (runtime.CommandStream, error) {
	if !l.lost {
		l.lost = true
		return nil, runtime.ErrUnavailable
	}
	return l.Runtime.OpenCommand(ctx, id, cmd)
}

// A start that has not reached the container is repeated with its ID.
func TestLostStartIsRepeated(t *testing.T) {
	lose := func(o *access.Options) { o.Runtime = &lostStart{Runtime: o.Runtime} }
	inStartBubble(t, lose, func(t *testing.T, r startRig) {
		_, err := r.run(t, "hang")
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		begun := time.Now()
		created, err := r.run(t, "hang")
		require.NoError(t, err)
		require.True(t, created)
		require.Less(t, time.Since(begun), 5*time.Second)
		require.Equal(t, []string{"exec.started hang", "exec.failed hang", "exec.started hang"}, r.recorded(t))
		r.Release(r.claim)
	})
}

// What goes wrong when a start is repeated is no end of the command that runs.
func TestRepeatedStartThatFails(t *testing.T) {
	inStartBubble(t, nil, func(t *testing.T, r startRig) {
		_, err := r.run(t, "hang")
		require.NoError(t, err)
		_, err = r.access.Start(t.Context(), r.claim.ID, access.CommandRequest{ID: "x", Args: []string{"hang"}, After: 5})
		require.ErrorIs(t, err, runtime.ErrOutputLost)
		require.Equal(t, []string{"exec.started hang"}, r.recorded(t))
		r.Release(r.claim)
		_, err = r.run(t, "hang")
		require.ErrorIs(t, err, claim.ErrNotActive)
		require.Equal(t, []string{"exec.started hang", "exec.failed hang"}, r.recorded(t))
	})
}

// slowStart is a container that starts no command until the call is given up.
type slowStart struct{ access.Runtime }

func (slowStart) OpenCommand(ctx context.Context, _ string, _ runtime.TenantCommand) (runtime.CommandStream, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// A start is given up before its record is taken for that of a command which never
// ran: what starts later would have no record.
func TestStartIsGivenUpBeforeItsRecord(t *testing.T) {
	slow := func(o *access.Options) { o.Runtime = slowStart{o.Runtime} }
	inStartBubble(t, slow, func(t *testing.T, r startRig) {
		begun := time.Now()
		_, err := r.run(t, "hang")
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		require.Less(t, time.Since(begun), time.Minute)
		require.Equal(t, []string{"exec.started hang"}, r.recorded(t))
	})
}
