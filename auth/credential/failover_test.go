package credential_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/store"
)

// A server follows a database whose last changes were lost, by a failover or a
// restore, also if it has had as many changes since, or more, when the server looks.
func TestLostChanges(t *testing.T) {
	for _, changes := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(changes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				open := func(name string) *database {
					db, err := store.Open(t.Context(), filepath.Join(dir, name))
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, db.Close()) })
					return &database{DB: db}
				}
				first := open("first.db")
				s := newService(t, credential.Options{Store: first})
				op := mustKey(t, s, "op", operator)
				require.NoError(t, store.Backup(t.Context(), filepath.Join(dir, "first.db"), filepath.Join(dir, "second.db")))
				pass(time.Second)
				lost := mustKey(t, s, "lost", operator)
				ended := follow(t, s, mustBe(t, s, lost))
				pass(time.Second)

				second := open("second.db")
				other := newService(t, credential.Options{Store: second})
				var made []string
				for i := range changes {
					made = append(made, mustKey(t, other, fmt.Sprint("next", i), operator))
				}
				first.DB = second.DB // what the service reads is the second one
				pass(3 * time.Second)
				mustBe(t, s, op)
				refused(t, s, lost, auth.ErrInvalidCredential)
				mustEnd(t, ended, auth.ErrRevoked, 0)
				for _, key := range made {
					mustBe(t, s, key)
				}
			})
		})
	}
}
