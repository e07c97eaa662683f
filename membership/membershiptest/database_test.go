package membershiptest_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/membership"
	"github.com/hostler/hostler/membership/membershiptest"
)

// The database in memory is as good as a real one.
func TestDatabase(t *testing.T) {
	membershiptest.TestStore(t, func(*testing.T) (func() membership.Store, func(time.Duration)) {
		db, shifted := membershiptest.NewDatabase(), time.Duration(0)
		return func() membership.Store { return db.Open() }, func(by time.Duration) {
			db.ShiftClock(by - shifted)
			shifted = by
		}
	})
}
