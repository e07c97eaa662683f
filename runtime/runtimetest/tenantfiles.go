package runtimetest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// tenantFileCases tests TenantFiles.
func tenantFileCases(t *testing.T, s *suite) {
	c := s.start(t)
	cases := []struct {
		name string
		run  func(t *testing.T, c *container)
	}{
		{"round trip", fileRoundTrip},
		{"large", largeTenantFile},
		{"ranges", fileRanges},
		{"lists", fileLists},
		{"removal", fileRemoval},
		{"trees", fileTrees},
		{"links", fileLinks},
		{"within", filesWithin},
		{"other files", irregularFiles},
		{"errors", fileErrors},
		{"read-only", readOnlyFiles},
		{"broken upload", brokenUpload},
		{"rights of the user", fileRights},
		{"stopped program", stoppedFileProgram},
		{"fence", fileFence},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			s.begin(t)
			k.run(t, c)
		})
	}
}

// ref returns a reference of the first claim.
func ref(path string, within ...string) runtime.FileRef {
	return runtime.FileRef{Path: path, Within: within, Fence: 1}
}

// writeFile writes a file, which must succeed.
func (c *container) writeFile(t *testing.T, path, text string) runtime.FileInfo {
	t.Helper()
	info, err := c.rt.WriteFile(t.Context(), c.id, ref(path), 0o644, strings.NewReader(text))
	require.NoError(t, err, "WriteFile %s", path)
	return info
}

// readFile reads a file, which must succeed.
func (c *container) readFile(t *testing.T, r runtime.FileRef) string {
	t.Helper()
	_, content, err := c.rt.ReadFile(t.Context(), c.id, r, 0, -1)
	require.NoError(t, err, "ReadFile %s", r.Path)
	defer content.Close()
	text, err := io.ReadAll(content)
	require.NoError(t, err, "read %s", r.Path)
	return string(text)
}

// requireFileError checks the reason of an error.
func requireFileError(t *testing.T, want runtime.FileReason, err error, what string) {
	t.Helper()
	var failure *runtime.FileError
	require.ErrorAs(t, err, &failure, what)
	require.Equal(t, want, failure.Reason, "%s: %v", what, err)
}

func fileRoundTrip(t *testing.T, c *container) {
	wrote, err := c.rt.WriteFile(t.Context(), c.id, ref("/data/trip/new/file"), 0o640, strings.NewReader("text"))
	require.NoError(t, err)
	require.Equal(t, "text", c.mustExec(t, "read", "trip/new/file"))
	seen := strings.Fields(c.mustExec(t, "stat", "trip/new/file"))
	require.Equal(t, []string{"file", "640"}, seen[:2])
	require.Equal(t, fmt.Sprint(wrote.UID, wrote.GID), strings.Join(seen[2:4], " "), "it belongs to the user")
	info, err := c.rt.StatFile(t.Context(), c.id, ref("/data/trip/new/../new/file"))
	require.NoError(t, err)
	require.Equal(t, wrote, info)
	require.Equal(t, "file", info.Name)
	require.Equal(t, runtime.TypeFile, info.Type)
	require.Equal(t, int64(4), info.Size)
	require.EqualValues(t, 0o640, info.Mode)
	require.WithinDuration(t, time.Now(), info.Modified, time.Hour)
	require.Equal(t, "text", c.readFile(t, ref("/data/trip/new/file")))
	c.writeFile(t, "/data/trip/new/file", "")
	require.Empty(t, c.readFile(t, ref("/data/trip/new/file")))

	odd := "/data/trip/-a name\nwith 'a' newline and \xff"
	c.writeFile(t, odd, "odd")
	require.Equal(t, "odd", c.readFile(t, ref(odd)))
	top, err := c.rt.StatFile(t.Context(), c.id, ref("/"))
	require.NoError(t, err)
	require.Equal(t, runtime.TypeDirectory, top.Type)
}

// A large file comes back as it was sent.
func largeTenantFile(t *testing.T, c *container) {
	size := int64(64 << 20)
	if isUnsupported(t, c.Limitations.NoProcesses, "to hold 64 MiB") {
		size = 1 << 20
	}
	sent, got := sha256.New(), sha256.New()
	body := io.TeeReader(io.LimitReader(&counter{}, size), sent)
	info, err := c.rt.WriteFile(t.Context(), c.id, ref("/data/large"), 0o600, body)
	require.NoError(t, err)
	require.Equal(t, size, info.Size)
	_, content, err := c.rt.ReadFile(t.Context(), c.id, ref("/data/large"), 0, -1)
	require.NoError(t, err)
	defer content.Close()
	n, err := io.Copy(got, content)
	require.NoError(t, err)
	require.Equal(t, size, n)
	require.Equal(t, sent.Sum(nil), got.Sum(nil))
	require.NoError(t, c.rt.RemoveFile(t.Context(), c.id, ref("/data/large"), false))
}

// counter is an endless stream of different bytes.
type counter struct{ n int }

func (c *counter) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(c.n ^ c.n>>8)
		c.n++
	}
	return len(p), nil
}

func fileRanges(t *testing.T, c *container) {
	c.writeFile(t, "/data/range", "0123456789")
	for _, k := range []struct {
		offset, length int64
		want           string
	}{
		{0, -1, "0123456789"}, {3, 4, "3456"}, {8, 100, "89"}, {10, -1, ""}, {10, 5, ""}, {0, 0, ""},
	} {
		info, content, err := c.rt.ReadFile(t.Context(), c.id, ref("/data/range"), k.offset, k.length)
		require.NoError(t, err, "%+v", k)
		text, err := io.ReadAll(content)
		require.NoError(t, err, "%+v", k)
		require.Equal(t, k.want, string(text))
		require.Equal(t, int64(10), info.Size, "of the whole file")
		require.NoError(t, content.Close())
	}
	_, _, err := c.rt.ReadFile(t.Context(), c.id, ref("/data/range"), 11, -1)
	requireFileError(t, runtime.FileInvalid, err, "after the end")
}

func fileLists(t *testing.T, c *container) {
	names := []string{".hidden", "a", "a b", "b", "c", "z\xff", "ä"}
	for _, name := range names {
		c.writeFile(t, "/data/list/"+name, "x")
	}
	c.mustExec(t, "mkdir", "list/dir", "755")
	c.mustExec(t, "link", "no/such/target", "list/link")
	names = append(names, "dir", "link")
	slices.Sort(names)
	for _, limit := range []int{1, 4, 0} {
		var got []string
		after := ""
		for {
			page, err := c.rt.ListFiles(t.Context(), c.id, ref("/data/list"), after, limit)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			require.True(t, limit == 0 || len(page) <= limit)
			for _, info := range page {
				got = append(got, info.Name)
			}
			after = got[len(got)-1]
		}
		require.Equal(t, names, got, "limit %d", limit)
	}
	page, err := c.rt.ListFiles(t.Context(), c.id, ref("/data/list"), "c", 3)
	require.NoError(t, err)
	require.Equal(t, runtime.TypeDirectory, page[0].Type)
	require.Equal(t, runtime.TypeLink, page[1].Type)
	require.Equal(t, "no/such/target", page[1].Target)
}

func fileRemoval(t *testing.T, c *container) {
	c.writeFile(t, "/data/kept/file", "x")
	c.writeFile(t, "/data/gone/a/b/file", "x")
	c.mustExec(t, "link", c.path(t, "/data/kept"), "gone/a/link")
	remove := func(path string, recursive bool) error {
		return c.rt.RemoveFile(t.Context(), c.id, ref(path), recursive)
	}
	requireFileError(t, runtime.FileNotEmpty, remove("/data/gone", false), "a directory")
	require.NoError(t, remove("/data/gone/a/b/file", false))
	require.NoError(t, remove("/data/gone/a/b", false), "an empty directory")
	require.NoError(t, remove("/data/gone", true))
	requireFileError(t, runtime.FileNotFound, remove("/data/gone", true), "again")
	require.Equal(t, "x", c.readFile(t, ref("/data/kept/file")), "links are not followed")
	requireFileError(t, runtime.FileInvalid, remove("/", true), "the root")
	requireFileError(t, runtime.FileInvalid, remove("/data/..", true), "the root")
}

func fileTrees(t *testing.T, c *container) {
	archive := pack(t, archiveEntry{"dir/file", tar.TypeReg, 0o640, "text"}, archiveEntry{"link", tar.TypeSymlink, 0o777, "dir"})
	require.NoError(t, c.rt.WriteTree(t.Context(), c.id, ref("/data/tree/new"), archive))
	require.Equal(t, "text", c.mustExec(t, "read", "tree/new/link/file"))
	require.Equal(t, map[string]string{"dir": "", "dir/file": "text", "link": ""}, c.readTree(t, "/data/tree/new"))
	require.Equal(t, map[string]string{"file": "text"}, c.readTree(t, "/data/tree/new/dir/file"), "a single file")

	c.mustExec(t, "mkdir", "tree/jail", "755")
	// An element of a link's target that is itself a link does not lead out either.
	chain := []archiveEntry{
		{"up", tar.TypeSymlink, 0o777, "../new"}, {"chain", tar.TypeSymlink, 0o777, "up/dir"}, {"chain/f", tar.TypeReg, 0o644, "x"},
	}
	require.ErrorIs(t, c.rt.CopyIn(t.Context(), c.id, "/data/tree/jail", 0, pack(t, chain...)), runtime.ErrBadArchive)
	for name, bad := range map[string]io.Reader{
		"through a chain of links": pack(t, chain...),
		"upwards":                  pack(t, archiveEntry{"../f", tar.TypeReg, 0o644, "x"}),
		"through a link": pack(t, archiveEntry{"out", tar.TypeSymlink, 0o777, "../new"},
			archiveEntry{"out/f", tar.TypeReg, 0o644, "x"}),
		"cut off": bytes.NewReader(pack(t, archiveEntry{"f", tar.TypeReg, 0o644, strings.Repeat("x", 2000)}).Bytes()[:1500]),
	} {
		require.ErrorIs(t, c.rt.WriteTree(t.Context(), c.id, ref("/data/tree/jail"), bad), runtime.ErrBadArchive, name)
	}
	require.Len(t, c.readTree(t, "/data/tree/new"), 3, "nothing was written outside")
	_, err := c.rt.ReadTree(t.Context(), c.id, ref("/data/tree/none"))
	require.ErrorIs(t, err, runtime.ErrFileNotFound)
}

// readTree returns the entries of an archive with their content.
func (c *container) readTree(t *testing.T, path string) map[string]string {
	t.Helper()
	archive, err := c.rt.ReadTree(t.Context(), c.id, ref(path))
	require.NoError(t, err)
	defer archive.Close()
	found := map[string]string{}
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		found[strings.TrimSuffix(h.Name, "/")] = string(text)
	}
	_, err = io.Copy(io.Discard, archive)
	require.NoError(t, err)
	return found
}

// Links are followed by reads, and replaced by writes.
func fileLinks(t *testing.T, c *container) {
	c.writeFile(t, "/data/links/dir/file", "text")
	c.mustExec(t, "link", "dir/file", "links/link")
	c.mustExec(t, "link", "dir", "links/to-dir")
	c.mustExec(t, "link", "loop", "links/loop")
	require.Equal(t, "text", c.readFile(t, ref("/data/links/link")))
	require.Equal(t, "text", c.readFile(t, ref("/data/links/to-dir/file")))
	info, err := c.rt.StatFile(t.Context(), c.id, ref("/data/links/link"))
	require.NoError(t, err)
	require.Equal(t, runtime.TypeLink, info.Type)
	require.Equal(t, "dir/file", info.Target)
	c.writeFile(t, "/data/links/link", "new")
	require.Equal(t, "text", c.readFile(t, ref("/data/links/dir/file")))
	require.Equal(t, "new", c.readFile(t, ref("/data/links/link")))
	_, _, err = c.rt.ReadFile(t.Context(), c.id, ref("/data/links/loop"), 0, -1)
	require.Error(t, err)
}

// No link leads out of what is allowed.
func filesWithin(t *testing.T, c *container) {
	c.writeFile(t, "/data/outside/file", "outside")
	c.writeFile(t, "/data/allowed/dir/file", "inside")
	c.mustExec(t, "link", "../outside", "allowed/relative")
	c.mustExec(t, "link", c.path(t, "/data/outside"), "allowed/absolute")
	c.mustExec(t, "link", "dir", "allowed/good")
	require.Equal(t, "inside", c.readFile(t, ref("/data/allowed/good/file", "/none", "/data/allowed")))
	for _, path := range []string{
		"/data/outside/file", "/data/allowed/../outside/file", "/data/allowed/relative/file",
		"/data/allowed/absolute/file", "/data/allowed/good/../relative/file", "/data", "/data/allowedx",
	} {
		within := ref(path, "/none", "/data/allowed")
		_, err := c.rt.StatFile(t.Context(), c.id, within)
		requireFileError(t, runtime.FileOutside, err, "StatFile "+path)
		_, _, err = c.rt.ReadFile(t.Context(), c.id, within, 0, -1)
		requireFileError(t, runtime.FileOutside, err, "ReadFile "+path)
		_, err = c.rt.WriteFile(t.Context(), c.id, within, 0o644, strings.NewReader("new"))
		requireFileError(t, runtime.FileOutside, err, "WriteFile "+path)
		requireFileError(t, runtime.FileOutside, c.rt.RemoveFile(t.Context(), c.id, within, true), "RemoveFile "+path)
		_, err = c.rt.ReadTree(t.Context(), c.id, within)
		requireFileError(t, runtime.FileOutside, err, "ReadTree "+path)
		err = c.rt.WriteTree(t.Context(), c.id, within, pack(t, archiveEntry{"file", tar.TypeReg, 0o644, "new"}))
		requireFileError(t, runtime.FileOutside, err, "WriteTree "+path)
	}
	require.Equal(t, "outside", c.readFile(t, ref("/data/outside/file")))
}

// What is not a regular file is not read, and nothing waits for it.
func irregularFiles(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.NoKernel, "to have pipes") {
		return
	}
	c.mustExec(t, "mkfifo", "pipe")
	for _, path := range []string{"/data/pipe", "/data"} {
		_, _, err := c.rt.ReadFile(t.Context(), c.id, ref(path), 0, -1)
		requireFileError(t, runtime.FileNotRegular, err, path)
	}
}

func fileErrors(t *testing.T, c *container) {
	c.writeFile(t, "/data/errors/file", "x")
	_, err := c.rt.StatFile(t.Context(), c.id, ref("/data/errors/none"))
	require.ErrorIs(t, err, runtime.ErrFileNotFound)
	_, err = c.rt.ListFiles(t.Context(), c.id, ref("/data/errors/file"), "", 0)
	requireFileError(t, runtime.FileNotDir, err, "ListFiles")
	_, err = c.rt.WriteFile(t.Context(), c.id, ref("/data/errors/file/x"), 0o644, strings.NewReader("x"))
	requireFileError(t, runtime.FileNotDir, err, "WriteFile")
	_, err = c.rt.WriteFile(t.Context(), c.id, ref("/data/errors"), 0o644, strings.NewReader("x"))
	requireFileError(t, runtime.FileNotRegular, err, "WriteFile")
	for _, path := range []string{"", "data", "/data/\x00", "/" + strings.Repeat("x/", 2048)} {
		_, err = c.rt.StatFile(t.Context(), c.id, ref(path))
		requireFileError(t, runtime.FileInvalid, err, path)
	}
	_, err = c.rt.StatFile(t.Context(), NewID(), ref("/data"))
	require.ErrorIs(t, err, runtime.ErrNotFound)
}

// What is read-only for the tenant's processes is not written.
func readOnlyFiles(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.SharedHost, "to have read-only filesystems") {
		return
	}
	hasVolumes := !isUnsupported(t, c.Limitations.SingleUser, "to have read-only volumes")
	paths := []string{"/file"}
	with := c.suite.start(t, func(spec *runtime.Spec) {
		spec.ReadOnly = true
		if hasVolumes {
			spec.Volumes = append(spec.Volumes, runtime.Volume{Name: "ro", Target: "/ro", ReadOnly: true})
			paths = append(paths, "/ro/file", "/ro/new/file")
		}
	})
	for _, path := range paths {
		_, err := with.rt.WriteFile(t.Context(), with.id, ref(path), 0o644, strings.NewReader("x"))
		requireFileError(t, runtime.FileReadOnly, err, path)
	}
	if !hasVolumes {
		return
	}
	err := with.rt.WriteTree(t.Context(), with.id, ref("/ro"), pack(t, archiveEntry{"f", tar.TypeReg, 0o644, "x"}))
	requireFileError(t, runtime.FileReadOnly, err, "WriteTree")
}
