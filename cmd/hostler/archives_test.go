package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
)

const ofAlice = " --workload web --tenant alice"

// tenantSnapshots runs a command on a tenant's snapshots.
func tenantSnapshots(t *testing.T, in, args string) (code int, out, errOut string) {
	t.Helper()
	return hostler(t, in, strings.Fields("snapshots "+args+ofAlice)...)
}

// Damage has a status of its own, and its paths are printed without what a terminal
// would interpret.
func TestSnapshotsVerify(t *testing.T) {
	b := serveTestBackend(t)
	b.Verified = snapshot.Verification{Snapshots: 2, Files: 3, Bytes: 4, Objects: 5, Requests: 6, Read: 7}
	code, out, errOut := tenantSnapshots(t, "", "verify")
	require.Equal(t, []any{exitOK, "checked 2 snapshots: 3 files, 4 bytes; read 7 bytes of 5 objects in 6 requests\n", ""}, []any{code, out, errOut})

	b.Verified.Damaged = 1
	b.Verified.Damages = []snapshot.Damage{{Object: "packs/x", Snapshot: "snap-1", Problem: "it is missing", Files: 1, Paths: []string{"/data/\x1b[2Ja"}}}
	code, out, errOut = tenantSnapshots(t, "", "verify snap-1")
	require.Equal(t, exitDamaged, code)
	require.Contains(t, out, "packs/x   snap-1")
	require.Contains(t, out, "it is missing")
	require.Contains(t, out, "damaged: /data/")
	require.NotContains(t, out, "\x1b")
	require.Equal(t, "error: 1 damages were found\n", errOut)
	code, out, _ = tenantSnapshots(t, "", "verify -o json")
	var v struct {
		OK      bool
		Damages []snapshot.Damage
	}
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Equal(t, []any{exitDamaged, false, b.Verified.Damages}, []any{code, v.OK, v.Damages})

	code, _, _ = tenantSnapshots(t, "", "verify none")
	require.Equal(t, exitNotFound, code)
}

// An export has the name of its file only when it is complete.
func TestSnapshotsExport(t *testing.T) {
	b := serveTestBackend(t)
	b.Archive = []byte("tar")
	code, out, errOut := tenantSnapshots(t, "", "export")
	require.Equal(t, []any{exitOK, "tar", "snapshot snap-2: 3 bytes of tar\n"}, []any{code, out, errOut})

	file := filepath.Join(t.TempDir(), "x.tar")
	code, out, errOut = tenantSnapshots(t, "", "export snap-1 -o json -f "+file)
	require.Equal(t, exitOK, code, errOut)
	require.JSONEq(t, `{"snapshot":"snap-1","bytes":3,"file":"`+file+`"}`, out)
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "tar", string(got))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	b.Archive = []byte(strings.Repeat("x", 1<<20))
	b.Fail("exporting", errors.New("the bucket is gone"))
	for _, args := range []string{"export", "export -f " + file} {
		code, _, errOut = tenantSnapshots(t, "", args)
		require.Equal(t, exitFailure, code, args)
		require.NotEmpty(t, errOut)
	}
	got, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "tar", string(got), "the former file stays")
	require.NoFileExists(t, file+".part")
	code, _, _ = tenantSnapshots(t, "", "export none")
	require.Equal(t, exitNotFound, code)
	code, _, _ = hostler(t, "", "snapshots", "export", "--tenant", "alice")
	require.Equal(t, exitUsage, code)
}

// A tar of a file or of the standard input becomes the current snapshot.
func TestSnapshotsImport(t *testing.T) {
	b := serveTestBackend(t)
	code, out, errOut := tenantSnapshots(t, "tar", "import")
	require.Equal(t, []any{exitOK, "snapshot imported is current: 2 files, 20 bytes\n", ""}, []any{code, out, errOut})
	require.Equal(t, "tar", string(b.Archive))
	file := filepath.Join(t.TempDir(), "x.tar")
	require.NoError(t, os.WriteFile(file, []byte("another"), 0o600))
	code, out, _ = tenantSnapshots(t, "", "import -o json -f "+file)
	require.Equal(t, exitOK, code)
	require.Contains(t, out, `"id": "imported"`)
	require.Equal(t, "another", string(b.Archive))

	b.Fail("import", runtime.ErrBadArchive)
	code, _, errOut = tenantSnapshots(t, "tar", "import")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "bad archive")
	code, _, errOut = tenantSnapshots(t, "", "import -f "+file+".none")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "x.tar.none")
}
