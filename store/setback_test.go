package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/wait"
)

// What a clock has recorded that was ahead and was set back is pruned as everything
// else is.
func TestRetentionAfterClockWasSetBack(t *testing.T) {
	for request, kept := range map[string]bool{"": false, "r1": false, "r2": true} {
		db := openTest(t)
		require.NoError(t, db.Append(t.Context(), activity.Event{
			Type: "custom.x", Message: "m", Claim: "c", Publication: request, Untrusted: true, Priority: new(7),
		}))
		if !kept {
			require.NoError(t, db.writer.update(t.Context(), func(tx *tx) error {
				return tx.execLater(`UPDATE events SET time = $1`, toNanos(time.Now().Add(time.Hour)))
			}))
		}
		for range 50 {
			require.NoError(t, db.Append(t.Context(), activity.Event{Type: activity.PoolWarning, Message: "m"}))
		}
		p, err := db.Prune(t.Context(), Retention{Before: time.Now().Add(-time.Hour), Events: 10})
		require.NoError(t, err)
		want := 41
		if kept {
			want = 0
		}
		require.EqualValues(t, want, p.Events, request)
	}
	p := publishedPruner{}
	p.repeatableSince, p.repeatableUntil = repeatable()
	ahead := publishedEvent{time: toNanos(time.Now().Add(time.Hour)), hasRequest: true}
	require.True(t, p.mayRemove(ahead, ahead.time+1))
}

// Waits that began by a clock that was ahead do not count as those of this minute.
func TestWaitRateAfterClockWasSetBack(t *testing.T) {
	db := openTest(t)
	memoryDB{db, t}.share(false)
	c := memoryDB{db, t}.claim("ada").ID
	start := func(request string) (wait.Wait, error) {
		w, _, err := db.StartWait(t.Context(), wait.Wait{
			ID: uuid.Must(uuid.NewV7()).String(), Claim: c, Request: request, Type: "review", TimeoutMS: 60_000,
		})
		return w, err
	}
	for i := range wait.MaxPerMinute {
		w, err := start(fmt.Sprint("r", i))
		require.NoError(t, err)
		_, err = db.UpdateWait(t.Context(), wait.Transition{
			Key: w.Key(), From: wait.Waiting, Round: 1, Apply: func(w *wait.Wait, now time.Time) []activity.Event { return w.Expire(now) },
		})
		require.NoError(t, err)
	}
	_, err := start("more")
	require.ErrorIs(t, err, wait.ErrTooMany)
	require.NoError(t, db.writer.update(t.Context(), func(t *tx) error {
		return t.execLater(`UPDATE waits SET created_at = created_at + $1`, int64(time.Hour))
	}))
	_, err = start("new")
	require.NoError(t, err)
}
