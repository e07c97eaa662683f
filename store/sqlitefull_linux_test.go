package store_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/store"
)

// On a disk that is really full, changes fail with ErrDiskFull, reads continue,
// and all acknowledged changes exist: at once, after a restart on the full
// disk, and when there is space again.
func TestSQLiteOnFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=2m"); err != nil {
		testenv.Skip(t, "root", "a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	path := filepath.Join(disk, "hostler.db")
	db := openURL(t, path)
	message := strings.Repeat("x", 2000)
	answers := make([]error, 1000)
	var g errgroup.Group
	g.SetLimit(20)
	for i := range answers {
		g.Go(func() error {
			answers[i] = db.Append(t.Context(), warning(message))
			return nil
		})
	}
	require.NoError(t, g.Wait())
	kept := 0
	for _, err := range answers {
		if err == nil {
			kept++
			continue
		}
		require.ErrorIs(t, err, store.ErrDiskFull)
		require.ErrorContains(t, err, "the disk that holds the database is full")
	}
	require.Positive(t, kept)
	require.Less(t, kept, len(answers))
	whole := func(db *store.DB) {
		t.Helper()
		p, err := db.Events(t.Context(), activity.Filter{}, 0, 0)
		require.NoError(t, err)
		require.Len(t, p.Items, kept, "as many as were acknowledged")
	}
	whole(db)
	_ = db.Close() // there may be no space for the checkpoint

	db = openURL(t, path)
	whole(db)
	if err := db.Append(t.Context(), warning(message)); err == nil {
		kept++ // the restart has freed space
	} else {
		require.ErrorIs(t, err, store.ErrDiskFull)
	}
	_ = db.Close()

	require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
	db = openDB(t, path)
	whole(db)
	require.NoError(t, db.Append(t.Context(), warning(message)))
	kept++
	whole(db)
	var result string
	require.NoError(t, openRaw(t, path).QueryRow(`PRAGMA integrity_check`).Scan(&result))
	require.Equal(t, "ok", result)
}
