package snapshot_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/snapshot"
	clouds "github.com/hostler/hostler/snapshot/cloud"
)

// A workload's author cannot use a directory that the operator has not allowed,
// not through a link either.
func TestAllowedDirs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"own", "allowed/sub", "secret"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	require.NoError(t, os.Symlink("../secret", filepath.Join(dir, "allowed", "link")))
	open := func(p snapshot.PathPolicy, path string) error {
		sinks := snapshot.NewSinks(p, nil)
		_, err := sinks.Open(t.Context(), synced(t, "{sink: {type: file, path: '"+path+"'}}"))
		return errors.Join(err, sinks.Close())
	}
	policy := snapshot.PathPolicy{State: filepath.Join(dir, "own"), Dirs: []string{filepath.Join(dir, "allowed")}}
	for _, ok := range []string{"own", "own/new/er", "allowed", "allowed/sub", "allowed/new"} {
		require.NoError(t, open(policy, filepath.Join(dir, ok)), ok)
	}
	for _, no := range []string{"secret", "allowed-too", "allowed/link", "allowed/link/new", "."} {
		require.ErrorIs(t, open(policy, filepath.Join(dir, no)), snapshot.ErrPathNotAllowed, no)
	}
	policy.Dirs = []string{filepath.Join(dir, "not mounted")}
	require.ErrorIs(t, open(policy, filepath.Join(dir, "not mounted", "x")), os.ErrNotExist)
	require.NoDirExists(t, filepath.Join(dir, "not mounted"))
	require.ErrorIs(t, open(snapshot.PathPolicy{}, "/"), snapshot.ErrPathNotAllowed)
	_, err := snapshot.NewSinks(snapshot.PathPolicy{}, clouds.Open).Open(t.Context(), synced(t, ""))
	require.ErrorIs(t, err, snapshot.ErrPathNotAllowed)
}

// Credentials come from the operator's directory, or from variables for sinks.
// Errors about them do not show them.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const key = "a-secret-that-no-one-may-see"
	keys := filepath.Join(dir, "keys")
	require.NoError(t, os.MkdirAll(keys, 0o700))
	write("keys/s3", "# comment\n[default]\naws_access_key_id = id\naws_secret_access_key = "+key)
	write("keys/half", "aws_secret_access_key = "+key)
	write("keys/empty", "\n")
	write("keys/azure", "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=YS1zZWNyZXQ=;EndpointSuffix=core.windows.net")
	write("keys/text", key)
	write("outside", key)
	require.NoError(t, os.Symlink("../outside", filepath.Join(keys, "link")))
	t.Setenv("HOSTLER_SINK_S3", "aws_access_key_id=id\naws_secret_access_key="+key)
	sinks := snapshot.NewSinks(snapshot.PathPolicy{Credentials: keys}, clouds.Open)
	defer sinks.Close()
	const s3, gcs, azure = "type: s3, bucket: b", "type: gcs, bucket: b", "type: azure, account: acc, container: con"
	for _, c := range []struct{ sink, credentials, want string }{
		{s3, "{file: s3}", ""}, {s3, "{env: HOSTLER_SINK_S3}", ""}, {azure, "{file: azure}", ""},
		{s3, "{file: half}", "aws_access_key_id"}, {s3, "{file: empty}", "is empty"}, {s3, "{file: none}", "none"},
		{s3, "{file: link}", "escapes"}, {s3, "{env: HOSTLER_SINK_NONE}", "HOSTLER_SINK_NONE"},
		{gcs, "{file: text}", "not a service account key"}, {azure, "{file: text}", "not a connection string"},
	} {
		_, err := sinks.Open(t.Context(), synced(t, fmt.Sprintf("{sink: {%s, credentials: %s}}", c.sink, c.credentials)))
		if c.want == "" {
			require.NoError(t, err, c.credentials)
			continue
		}
		require.ErrorIs(t, err, snapshot.ErrCredentials, c.credentials)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), key)
	}
	_, err := snapshot.NewSinks(snapshot.PathPolicy{}, clouds.Open).Open(t.Context(), synced(t, "{sink: {type: s3, bucket: b, credentials: {file: s3}}}"))
	require.ErrorContains(t, err, "no credentials directory")
}

// Credentials that are no regular file, or too large, are an error at once.
func TestCredentialsAreFile(t *testing.T) {
	t.Parallel()
	keys := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(keys, "pipe"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(keys, "large"), []byte(strings.Repeat("x", 64<<10+1)), 0o600))
	sinks := snapshot.NewSinks(snapshot.PathPolicy{Credentials: keys}, clouds.Open)
	defer sinks.Close()
	for name, want := range map[string]string{"pipe": "not a regular file", "large": "is larger than 65536 bytes"} {
		config := synced(t, "{sink: {type: s3, bucket: b, credentials: {file: "+name+"}}}")
		opened := make(chan error, 1)
		go func() {
			_, err := sinks.Open(t.Context(), config)
			opened <- err
		}()
		err := testenv.Await(t, opened, "the sink of the "+name)
		require.ErrorIs(t, err, snapshot.ErrCredentials, name)
		require.ErrorContains(t, err, want, name)
	}
}

// A bucket is opened once, for all prefixes, and again when its secret changes.
func TestBucketsAreShared(t *testing.T) {
	t.Parallel()
	keys := t.TempDir()
	write := func(secret string) {
		text := "aws_access_key_id = id\naws_secret_access_key = " + secret
		require.NoError(t, os.WriteFile(filepath.Join(keys, "s3"), []byte(text), 0o600))
	}
	write("one")
	sinks := snapshot.NewSinks(snapshot.PathPolicy{Credentials: keys}, clouds.Open)
	defer sinks.Close()
	open := func(prefix string) snapshot.Bucket {
		b, err := sinks.BucketOf(t.Context(), synced(t, "{sink: {type: s3, bucket: b, prefix: '"+prefix+"', credentials: {file: s3}}}"))
		require.NoError(t, err)
		return b
	}
	first := open("${tenantId}")
	require.Same(t, first, open("x/${tenantId}"))
	write("two")
	require.NotSame(t, first, open("${tenantId}"))
	require.Equal(t, 1, sinks.OpenCount())
}

// A large state is read twice rather than sent unnecessarily, also in copy
// mode.
func TestLargeStateIsReadTwice(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"sync", "copy"} {
		h := newHarness(t, "{sink: {type: file}, mappings: [{path: /, mode: "+mode+"}]}")
		c := h.container(reg("large", incompressible(snapshot.PeekSize+100_000)), reg("x", "1"))
		first := h.upload(c)
		require.Greater(t, first.Sent, int64(snapshot.PeekSize))
		h.fence++
		again := h.upload(c)
		require.True(t, again.Unchanged)
		require.Zero(t, again.Sent)
		require.Len(t, h.bucket.Calls("put"), 1)
		h.put(c, "/data", reg("x", "2"))
		var seen int64
		o := h.origin(c)
		o.Progress = func(n int64) { seen = n }
		second, err := h.sink.Upload(t.Context(), h.rt, o)
		require.NoError(t, err)
		require.Equal(t, seen, second.Sent)
		require.Equal(t, "2", h.kept()["x"])
	}
}
