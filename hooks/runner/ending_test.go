package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
)

// The hook of a terminated server that is ended because its container is destroyed by
// force is canceled, also if the container was removed before the next server asks for
// its outcome. If the pre_destroy hooks are skipped, the removal may have ended it.
func TestResumeOfHookEndedByForce(t *testing.T) {
	for _, tt := range []struct {
		now    bool
		result scriptedResult
		want   hooks.RunState
	}{
		{false, exit0, hooks.Succeeded}, {false, exit3, hooks.Cancelled}, {false, lost, hooks.Cancelled},
		{true, exit0, hooks.Succeeded}, {true, exit3, hooks.Cancelled}, {true, lost, hooks.Lost},
	} {
		synctest.Test(t, func(t *testing.T) {
			prior := hooks.Run{ID: "1", Hook: "a", Attempt: 1, Point: hooks.PreRelease, Kind: hooks.KindCommand, Container: "k", State: hooks.Running}
			x := &scriptedRuntime{waitResults: []scriptedResult{tt.result}}
			r := newRunner(x, &fakeRecorder{prior: []hooks.Run{prior}})
			r.End("k", tt.now, errors.New("by force"))
			runs, err := r.run(t.Context(), hooks.PreRelease, []hooks.Hook{newHook("a", hooks.Fail, 0)}, Subject{Claim: "c", Container: "k"})
			require.Equal(t, tt.want != hooks.Succeeded, err != nil, "%v", err)
			require.Len(t, runs, 1)
			require.Equal(t, tt.want, runs[0].State, "%+v", tt)
		})
	}
}

// slowRecorder has a run end on record after some reads.
type slowRecorder struct {
	*fakeRecorder
	reads int
}

// Runs implements hooks.Recorder.
func (rec *slowRecorder) Runs(context.Context, hooks.RunFilter) ([]hooks.Run, error) {
	if rec.reads--; rec.reads < 0 {
		return nil, nil
	}
	return rec.prior, nil
}

// The container of a hook that was ended by force is kept until its end is on record,
// for a time: no server could ask for it afterwards.
func TestForceAwaitsRecord(t *testing.T) {
	for reads, isRecorded := range map[int]bool{10: true, 1 << 20: false} {
		synctest.Test(t, func(t *testing.T) {
			prior := hooks.Run{ID: "1", Hook: "a", Attempt: 1, Point: hooks.PreRelease, Kind: hooks.KindCommand, Container: "k", State: hooks.Running}
			rec := &slowRecorder{&fakeRecorder{prior: []hooks.Run{prior}}, reads}
			r := newRunner(&scriptedRuntime{waitResults: []scriptedResult{exit3}}, rec)
			begin := time.Now()
			require.NoError(t, r.awaitIdle(t.Context(), hooks.PreDestroy, Subject{Container: "k", EndsOthers: true}))
			require.Equal(t, isRecorded, rec.reads < 0)
			require.Equal(t, isRecorded, time.Since(begin) < awaitRecordTimeout)
		})
	}
}
