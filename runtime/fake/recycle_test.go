package fake_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// mustExec runs the test program, which must succeed, and returns its output.
func mustExec(t *testing.T, rt *fake.Runtime, id string, args ...string) string {
	t.Helper()
	result, err := rt.Exec(t.Context(), id, execTestprog(args...))
	require.NoError(t, err)
	require.True(t, result.OK(), "box %q: %s", args, result.Stderr)
	return result.Stdout.String()
}

// A wipe removes everything on volumes and in memory. It rejects every container
// whose other files were changed, even if they were restored.
func TestWipe(t *testing.T) {
	cases := map[string]struct {
		do    [][]string
		clean bool
	}{
		"untouched":           {nil, true},
		"volume":              {[][]string{{"write", "/data/a/b", "x"}, {"chmod", "/data", "777"}}, true},
		"memory":              {[][]string{{"write", "/tmp/a", "x"}, {"write", "/dev/shm/a", "x"}}, true},
		"written":             {[][]string{{"write", "/etc/motd", "x"}}, false},
		"written and removed": {[][]string{{"write", "/etc/motd", "x"}, {"remove", "/etc/motd"}}, false},
		"mode":                {[][]string{{"chmod", "/etc/passwd", "644"}}, false},
		"link":                {[][]string{{"link", "/data", "/opt"}}, false},
		"through a link":      {[][]string{{"link", "/etc", "/data/etc"}, {"write", "/data/etc/motd", "x"}}, false},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			rt, ctx := fake.New(), t.Context()
			id := startContainer(t, rt)
			mustExec(t, rt, id, "write", "/etc/before", "x")
			require.NoError(t, rt.RecordBaseline(ctx, id, 1))
			for _, args := range tt.do {
				mustExec(t, rt, id, args...)
			}
			err := rt.Wipe(ctx, id, 1)
			if !tt.clean {
				require.ErrorIs(t, err, runtime.ErrWipeUnverified)
				return
			}
			require.NoError(t, err)
			_, err = rt.Exec(ctx, id, execTestprog("exit", "0"))
			require.ErrorIs(t, err, runtime.ErrNotRunning, "the main process has exited too")
			require.NoError(t, rt.Restart(ctx, id, 1))
			require.Empty(t, listFiles(t, rt, id, "/data"))
			require.Empty(t, listFiles(t, rt, id, "/tmp"))
			require.Equal(t, "dir 755 0 0 0\n", mustExec(t, rt, id, "stat", "/data"))
			require.Equal(t, "x", mustExec(t, rt, id, "read", "/etc/before"))
		})
	}
	rt := fake.New()
	require.ErrorIs(t, rt.Wipe(t.Context(), startContainer(t, rt), 1), runtime.ErrWipeUnverified, "no baseline")
}

func TestReadOnly(t *testing.T) {
	rt := fake.New()
	spec := newSpec()
	spec.ReadOnly = true
	spec.Volumes = append(spec.Volumes, runtime.Volume{Name: "fixed", Target: "/fixed", ReadOnly: true})
	require.NoError(t, rt.Create(t.Context(), spec))
	require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
	for _, name := range []string{"/etc/x", "/x", "/fixed/x"} {
		result, err := rt.Exec(t.Context(), spec.ID, execTestprog("write", name, "x"))
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode)
		require.Contains(t, result.Stderr.Head, "read-only file system")
	}
	mustExec(t, rt, spec.ID, "write", "/tmp/x", "x")
	mustExec(t, rt, spec.ID, "write", "/data/x", "x")
	require.NoError(t, rt.CopyIn(t.Context(), spec.ID, "/fixed", 0, archive(t, file("x", "1"))))
	require.Equal(t, "1", mustExec(t, rt, spec.ID, "read", "/fixed/x"))
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o640, Size: int64(len(content))}, content}
}

func symlink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, ""}
}

type entry struct {
	header  tar.Header
	content string
}

func archive(t *testing.T, entries ...entry) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		require.NoError(t, w.WriteHeader(&e.header))
		_, err := w.Write([]byte(e.content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return &b
}

func listFiles(t *testing.T, rt *fake.Runtime, id, dir string) map[string]string {
	t.Helper()
	r, err := rt.CopyOut(t.Context(), id, dir)
	require.NoError(t, err)
	defer r.Close()
	found := make(map[string]string)
	for entries := tar.NewReader(r); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		content, err := io.ReadAll(entries)
		require.NoError(t, err)
		found[h.Name] = string(content) + h.Linkname
	}
}

// CopyOut returns what CopyIn has unpacked, owned by the container's user.
func TestCopyInAndOut(t *testing.T) {
	rt := fake.New()
	spec := newSpec()
	spec.User = "app"
	require.NoError(t, rt.Create(t.Context(), spec))
	require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
	put := archive(t,
		file("a", "1"), file("deep/down/b", "2"), symlink("l", "a"), symlink("far", "/etc/passwd"),
		entry{tar.Header{Typeflag: tar.TypeDir, Name: "empty/", Mode: 0o700}, ""})
	require.NoError(t, rt.CopyIn(t.Context(), spec.ID, "/data", 0, put))
	want := map[string]string{"a": "1", "deep/": "", "deep/down/": "", "deep/down/b": "2", "l": "a", "far": "/etc/passwd", "empty/": ""}
	require.Equal(t, want, listFiles(t, rt, spec.ID, "/data"))
	require.Equal(t, "file 640 1000 1000 1\n", mustExec(t, rt, spec.ID, "stat", "a"))
	require.Equal(t, "dir 700 1000 1000 0\n", mustExec(t, rt, spec.ID, "stat", "empty"))
	require.NoError(t, rt.CopyIn(t.Context(), spec.ID, "/data", 0, archive(t, entry{tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700}, ""}, file("far", "mine"), file("a", "3"))))
	require.Equal(t, "mine", mustExec(t, rt, spec.ID, "read", "far"), "a link is replaced, not written through")
}

// No entry is unpacked outside the directory, by its name or through a link.
func TestCopyInRejectsBadArchives(t *testing.T) {
	half := archive(t, file("a", "some text"))
	half.Truncate(515)
	cases := map[string]*bytes.Buffer{
		"above":            archive(t, file("../x", "")),
		"deeper above":     archive(t, file("a/../../x", "")),
		"down and up":      archive(t, file("a/../x", "")),
		"below a file":     archive(t, file("a", ""), file("a/x", "")),
		"over a directory": archive(t, file("f/x", ""), file("f", "")),
		"absolute":         archive(t, file("/data/x", "")),
		"through a link":   archive(t, symlink("l", "/etc"), file("l/x", "")),
		"and around":       archive(t, symlink("l", ".."), file("l/etc/x", "")),
		"hard link":        archive(t, entry{tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "a"}, ""}),
		"device":           archive(t, entry{tar.Header{Typeflag: tar.TypeChar, Name: "d"}, ""}),
		"cut":              half,
		"noise":            bytes.NewBuffer(bytes.Repeat([]byte("noise"), 200)),
	}
	rt := fake.New()
	id := startContainer(t, rt)
	require.NoError(t, rt.RecordBaseline(t.Context(), id, 1))
	for name, in := range cases {
		require.ErrorIs(t, rt.CopyIn(t.Context(), id, "/data", 0, in), runtime.ErrBadArchive, name)
	}
	require.ErrorIs(t, rt.CopyIn(t.Context(), id, "/no", 0, archive(t)), runtime.ErrFileNotFound)
	_, err := rt.CopyOut(t.Context(), id, "/no")
	require.ErrorIs(t, err, runtime.ErrFileNotFound)
	require.NoError(t, rt.Wipe(t.Context(), id, 1), "nothing else was touched")
}
