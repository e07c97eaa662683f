package e2e

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/runtime"
)

// randomContent returns n bytes that are the same each time.
func randomContent(n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{1}), n)
}

func hashOf(t testing.TB, r io.Reader) string {
	t.Helper()
	h := sha256.New()
	_, err := io.Copy(h, r)
	require.NoError(t, err)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// rootBox runs box as root, whatever the container's user is.
func (g tenantSession) rootBox(args ...string) {
	g.s.t.Helper()
	result, err := g.s.engine.Exec(g.s.t.Context(), g.Container, runtime.Command{
		Args: append([]string{g.s.rt.program(g.s.t, "box")}, args...), User: "0", Timeout: waitTimeout,
	})
	require.NoError(g.s.t, err)
	require.True(g.s.t, result.OK(), "%q: %+v", args, result)
}

// serveFiles starts a server with a claim on a workload that has a user of its own,
// where the backend can give it one.
func serveFiles(t *testing.T, rt backend) tenantSession {
	t.Helper()
	s := serve(t, rt)
	text := "pool: { min_idle: 1, max_size: 2 }\n"
	if rt.name() != "process" { // directories of the test are closed to other users
		text += "user: '1000:1000'\n"
	}
	s.apply("files", text)
	return s.claimAs("files", "ada")
}

// A tenant reads, writes, lists and removes files of its container, with the rights
// of the container's user, and until its release.
func TestFiles(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		g := serveFiles(t, rt)
		s, ctx := g.s, t.Context()
		const size = 20 << 20
		want := hashOf(t, randomContent(size))
		info, err := s.WriteFile(ctx, g.ID, "/state/new/swordfish", 0o640, randomContent(size))
		require.NoError(t, err)
		require.Equal(t, int64(size), info.Size)
		require.EqualValues(t, 0o640, info.Mode)
		f, err := s.OpenFile(ctx, g.ID, "/state/new/swordfish", client.FileRange{})
		require.NoError(t, err)
		require.Equal(t, want, hashOf(t, f))
		require.NoError(t, f.Close())
		g.requireRange(size-3, 0, 3)
		g.requireRange(10_000_001, 1<<20, 1<<20)
		again, err := s.StatFile(ctx, g.ID, "/state/new/swordfish")
		require.NoError(t, err)
		require.Equal(t, info, again)
		for i := range 30 {
			_, err = s.WriteFile(ctx, g.ID, fmt.Sprintf("/state/many/%02d", i), 0o644, strings.NewReader("x"))
			require.NoError(t, err)
		}
		n := 0
		for entry, err := range s.ListFiles(ctx, g.ID, "/state/many") {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%02d", n), entry.Name)
			n++
		}
		require.Equal(t, 30, n)

		g.requireIncomplete("/state/new/swordfish", want)
		g.requirePathTricks()
		g.requireDenied()
		g.requireCopies()

		require.Equal(t, client.CodeNotEmpty, refusal(s.RemoveFile(ctx, g.ID, "/state/many", false)))
		require.NoError(t, s.RemoveFile(ctx, g.ID, "/state/many", true))
		_, err = s.StatFile(ctx, g.ID, "/state/many")
		require.Equal(t, client.CodeFileNotFound, refusal(err))
		g.requireReleaseEndsUpload()
		_, err = s.StatFile(ctx, g.ID, "/state")
		require.Equal(t, client.CodeClaimNotActive, refusal(err))
		_, err = s.WriteFile(ctx, g.ID, "/state/late", 0o644, strings.NewReader("x"))
		require.Equal(t, client.CodeClaimNotActive, refusal(err))
		require.NotContains(t, s.log.String(), "swordfish")
		s.deleteWorkload("files")
		s.requireNothingLeft()
	}, dockerBackend{})
}

// requireReleaseEndsUpload releases the claim while an upload waits for its client.
func (g tenantSession) requireReleaseEndsUpload() {
	t := g.s.t
	t.Helper()
	content, client := io.Pipe()
	defer client.Close()
	uploaded := make(chan error, 1)
	go func() { // ends with the upload
		_, err := g.s.WriteFile(t.Context(), g.ID, "/state/late", 0o644, content)
		content.CloseWithError(io.ErrClosedPipe)
		uploaded <- err
	}()
	_, err := client.Write(bytes.Repeat([]byte("x"), 1<<20))
	require.NoError(t, err)
	_, err = g.s.Release(t.Context(), g.ID, false)
	require.NoError(t, err)
	for err == nil { // the client learns of it when it sends
		_, err = client.Write(bytes.Repeat([]byte("x"), 1<<20))
	}
	require.Error(t, <-uploaded)
}

// requireRange compares a range of the file that TestFiles has written.
func (g tenantSession) requireRange(offset, length, want int64) {
	g.s.t.Helper()
	part, err := g.s.OpenFile(g.s.t.Context(), g.ID, "/state/new/swordfish", client.FileRange{Offset: offset, Length: length})
	require.NoError(g.s.t, err)
	defer part.Close()
	whole := randomContent(offset + want)
	_, err = io.CopyN(io.Discard, whole, offset)
	require.NoError(g.s.t, err)
	require.Equal(g.s.t, hashOf(g.s.t, whole), hashOf(g.s.t, part))
}

// requireIncomplete breaks uploads: the file keeps its content, and nothing of them
// stays.
func (g tenantSession) requireIncomplete(name, want string) {
	t := g.s.t
	t.Helper()
	for _, body := range []string{"Content-Length: 5000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nf0000\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.s.base, "http://"))
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "PUT /v1/claims/%s/files%s HTTP/1.1\r\nHost: localhost\r\n%s", g.ID, name, body)
		require.NoError(t, err)
		_, err = conn.Write(bytes.Repeat([]byte("x"), 900_000))
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
		require.NoError(t, conn.Close())
	}
	f, err := g.s.OpenFile(t.Context(), g.ID, name, client.FileRange{})
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, want, hashOf(t, f))
	g.s.eventually(func() bool {
		n := 0
		for _, err := range g.s.ListFiles(t.Context(), g.ID, filepath.Dir(name)) {
			require.NoError(t, err)
			n++
		}
		return n == 1
	})
}

// requirePathTricks requests paths that are no files: none is redirected, and none
// leaves the container.
func (g tenantSession) requirePathTricks() {
	t := g.s.t
	t.Helper()
	for path, status := range map[string]int{
		"/..": 404, "/../../../etc/passwd": 404, "/%2e%2e/%2e%2e/etc/passwd": 422, "/..%2f..%2fetc%2fpasswd": 422,
		"/state/../state": 422, "//state": 422, "/state//new": 422, "/%2Fstate": 422, "/state/./new": 422,
		"/state/%00": 400, "/state/%ff": 400, "/%c0%ae%c0%ae/etc/passwd": 400, "/state/a%0ab": 400, "": 404,
		"/state/%EF%BC%8E%EF%BC%8E/x": 404, "/state/new/": 409, "/state/new%2Fswordfish?stat=true": 200,
		"/" + strings.Repeat("a/", 2047) + "a": 422, "/state/" + strings.Repeat("a", 256): 422,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.s.base, nil)
		require.NoError(t, err)
		r.URL.Opaque = "/v1/claims/" + g.ID + "/files" + path
		resp, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, status, resp.StatusCode, "%.60s", path)
	}
}

// requireDenied makes a file that only root can read.
func (g tenantSession) requireDenied() {
	t := g.s.t
	t.Helper()
	if g.s.rt.name() == "process" {
		return
	}
	g.rootBox("write", "/tmp/secret", "secret")
	g.rootBox("chmod", "/tmp/secret", "600")
	require.True(t, g.box("link", "secret", "/tmp/alias").OK())
	for _, name := range []string{"/tmp/secret", "/tmp/alias", "/proc/self/root/tmp/secret", "/proc/1/root/tmp/secret", "/proc/1/environ"} {
		_, err := g.s.OpenFile(t.Context(), g.ID, name, client.FileRange{})
		require.Equal(t, client.CodeFileDenied, refusal(err), name)
	}
	info, err := g.s.StatFile(t.Context(), g.ID, "/tmp/alias")
	require.NoError(t, err)
	require.Equal(t, "secret", info.Target)
	_, err = g.s.WriteFile(t.Context(), g.ID, "/box", 0o755, strings.NewReader("x"))
	require.Contains(t, []client.Code{client.CodeFileDenied, client.CodeReadOnly}, refusal(err))
	g.rootBox("remove", "/tmp/secret")
}

// requireCopies copies a directory in and out with the command line.
func (g tenantSession) requireCopies() {
	t := g.s.t
	t.Helper()
	top := t.TempDir()
	source := filepath.Join(top, "source")
	modified := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	require.NoError(t, os.MkdirAll(filepath.Join(source, "sub"), 0o755))
	for name, mode := range map[string]os.FileMode{"run.sh": 0o755, "sub/private": 0o600, "sub/日本": 0o644} {
		path := filepath.Join(source, name)
		require.NoError(t, os.WriteFile(path, []byte("content of "+name), mode))
		require.NoError(t, os.Chmod(path, mode))
		require.NoError(t, os.Chtimes(path, modified, modified))
	}
	require.NoError(t, os.Symlink("../run.sh", filepath.Join(source, "sub", "link")))
	require.NoError(t, os.Symlink("/nowhere", filepath.Join(source, "dangling")))
	g.s.mustCLI("cp", source, g.ID+":/state")
	back := filepath.Join(top, "back")
	g.s.mustCLI("cp", g.ID+":/state/source", back)
	require.Equal(t, treeOf(t, source), treeOf(t, back))

	g.s.mustCLI("cp", filepath.Join(source, "run.sh"), g.ID+":/state/one")
	require.Equal(t, "content of run.sh", g.s.mustCLI("cp", g.ID+":/state/one", "-"))
	require.Contains(t, g.s.mustCLI("files", "list", g.ID+":/state/source/sub"), "../run.sh")
	require.Contains(t, g.s.mustCLI("files", "stat", g.ID+":/state/one"), "0755")
	g.s.mustCLI("files", "delete", g.ID+":/state/source", "--recursive")
	require.Equal(t, 3, g.s.cli("cp", g.ID+":/state/source", back).code)
	// Many copies at once are refused or done, not mixed up.
	var all errgroup.Group
	for i := range 12 {
		all.Go(func() error {
			text := fmt.Sprintf("text %d", i)
			_, err := g.s.WriteFile(t.Context(), g.ID, "/state/one", 0o644, strings.NewReader(text))
			if refusal(err) == client.CodeTooManyRequests {
				return nil
			}
			return err
		})
	}
	require.NoError(t, all.Wait())
	require.Regexp(t, `^text \d+$`, g.s.mustCLI("cp", g.ID+":/state/one", "-"))
}

// treeOf describes what is below a directory.
func treeOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch d.Type() {
		case 0:
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + info.ModTime().UTC().String() + " " + string(content)
		case os.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + target
		}
		rel, err := filepath.Rel(dir, path)
		all[rel] = text
		return err
	}))
	return all
}
