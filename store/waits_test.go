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

// However many waits begin and end while one is open: after its end, a request that
// began or joined it returns it.
func TestLongWaitIsKept(t *testing.T) {
	for _, c := range databases {
		t.Run(c.name, func(t *testing.T) {
			db, err := Open(t.Context(), c.dsn(t))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			memoryDB{db, t}.share(false)
			claim := memoryDB{db, t}.claim("ada").ID
			start := func(name, request string) wait.Wait {
				w, _, err := db.StartWait(t.Context(), wait.Wait{
					ID: uuid.Must(uuid.NewV7()).String(), Claim: claim, Name: name, Request: request, Type: "review", TimeoutMS: 60_000,
				})
				require.NoError(t, err)
				return w
			}
			end := func(w wait.Wait) {
				_, err := db.UpdateWait(t.Context(), wait.Transition{
					Key: w.Key(), From: wait.Waiting, Round: 1, Apply: func(w *wait.Wait, now time.Time) []activity.Event { return w.Expire(now) },
				})
				require.NoError(t, err)
			}
			long := start("long", "first")
			require.Equal(t, long.ID, start("long", "second").ID)
			for n := range wait.MaxEnded + 10 {
				if n%(wait.MaxPerMinute/3) == 0 { // a minute later
					for _, table := range []string{"waits", "wait_requests"} {
						require.NoError(t, db.writer.update(t.Context(), func(t *tx) error { return t.execLater(`UPDATE ` + table + ` SET created_at = 1`) }))
					}
				}
				w := start("", fmt.Sprint(n))
				require.Equal(t, w.ID, start("", fmt.Sprint("joins ", n)).ID)
				end(w)
			}
			end(long)
			end(start("", ""))
			for _, request := range []string{"first", "second"} {
				require.Equal(t, long.ID, start("long", request).ID)
			}
			ended, err := db.Waits(t.Context(), wait.Filter{Claim: claim})
			require.NoError(t, err)
			require.InDelta(t, wait.MaxEnded, len(ended), 3)
			joined, err := queryRow(t.Context(), db, scanNumber, `SELECT count(*) FROM wait_requests`)
			require.NoError(t, err)
			require.InDelta(t, wait.MaxEnded, joined, 3)
			_, created, err := db.StartWait(t.Context(), wait.Wait{ID: "0", Claim: claim, Request: "0", Type: "review", TimeoutMS: 60_000})
			require.NoError(t, err)
			require.True(t, created, "the oldest one is removed")
		})
	}
}
