package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A password in the arguments, which every user of the machine can read, is
// rejected and not printed.
func TestStorePassword(t *testing.T) {
	code, out, errOut := hostler(t, "", "serve", "--store", "postgres://me:swordfish@127.0.0.1:1/hostler")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, "--store-file")
	require.NotContains(t, out+errOut, "swordfish")

	t.Setenv("HOSTLER_STORE", "postgres://me:swordfish@127.0.0.1:1/hostler")
	code, out, errOut = hostler(t, "", "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	require.NotZero(t, code)
	require.Contains(t, errOut, "cannot be reached")
	require.NotContains(t, out+errOut, "swordfish")

	code, _, errOut = hostler(t, "", "serve", "--store-file", "f")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, "one of them")
}

// The store is the default, a URL, or a URL in a file.
func TestStoreChoice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(file, []byte("postgres://me:pw@db/hostler\n"), 0o600))
	for _, c := range []struct {
		config serveConfig
		want   string
	}{
		{serveConfig{store: sqlite, data: "/d"}, "/d/hostler.db"},
		{serveConfig{store: "postgres://db/hostler", data: "/d"}, "postgres://db/hostler"},
		{serveConfig{store: sqlite, storeFile: file, data: "/d"}, "postgres://me:pw@db/hostler"},
	} {
		got, err := c.config.database()
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	_, err := (&serveConfig{store: sqlite, storeFile: file + "-not"}).database()
	require.ErrorIs(t, err, os.ErrNotExist)
}
