package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/publish"
	"github.com/hostler/hostler/store/postgrestest"
)

// What a request has published is removed like the other events once no program
// repeats the request any more.
func TestOldRequestsAreRemoved(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testOldRequests(t, openTest(t)) })
	t.Run("postgres", func(t *testing.T) {
		db, err := Open(t.Context(), postgrestest.Schema(t))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		testOldRequests(t, db)
	})
}

func testOldRequests(t *testing.T, db *DB) {
	future := time.Now().Add(time.Hour)
	for name, prune := range map[string]func() (int64, error){
		"all": func() (int64, error) {
			p, err := db.Prune(t.Context(), Retention{Before: future})
			return p.Events, err
		},
		"published": func() (int64, error) {
			return db.PrunePublished(t.Context(), PublishedRetention{Before: future, PerClaim: 10})
		},
	} {
		require.NoError(t, db.Append(t.Context(), activity.Event{
			Type: "custom.x", Message: "m", Claim: name, Publication: "r1", Untrusted: true, Priority: new(7),
		}))
		for _, age := range []time.Duration{publish.RequestRetention - time.Minute, publish.RequestRetention + time.Second} {
			require.NoError(t, db.writer.update(t.Context(), func(tx *tx) error {
				return tx.execLater(`UPDATE events SET time = $1`, toNanos(time.Now().Add(-age)))
			}))
			n, err := prune()
			require.NoError(t, err)
			require.Equal(t, age > publish.RequestRetention, n == 1, "%s %s: %d", name, age, n)
		}
	}
}
