package transport_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/transport"
)

// asUser is the variable with which this program is a client: DIRECTORY UID GID.
const asUser = "HOSTLER_TEST_CLIENT"

func TestMain(m *testing.M) {
	if text := os.Getenv(asUser); text != "" {
		if err := connectAs(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// connectAs becomes a user, and sends a request to the socket in a directory. It
// enters the directory first: those above it may not let the user in.
func connectAs(text string) error {
	fields := strings.Fields(text)
	uid, uidErr := strconv.Atoi(fields[1])
	gid, gidErr := strconv.Atoi(fields[2])
	for _, err := range []error{uidErr, gidErr, os.Chdir(fields[0]), syscall.Setgroups(nil), syscall.Setgid(gid), syscall.Setuid(uid)} {
		if err != nil {
			return err
		}
	}
	res, err := socketClient("socket").Get("http://localhost/")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(os.Stdout, res.Body)
	return err
}

// socketClient returns a client of a Unix socket.
func socketClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}

type uidKey struct{}

// serveUnix answers each request with the uid of its client until the test ends.
func serveUnix(t *testing.T, listeners ...net.Listener) {
	t.Helper()
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Context().Value(uidKey{})) //nolint:errcheck // the client sees it
		}),
		ConnContext: transport.ConnContext(func(ctx context.Context, uid uint32) context.Context {
			return context.WithValue(ctx, uidKey{}, uid)
		}, nil),
	}
	var g errgroup.Group
	for _, l := range listeners {
		g.Go(func() error { return server.Serve(l) })
	}
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, g.Wait(), http.ErrServerClosed)
	})
}

// newDirectory returns a directory that only this user can write to.
func newDirectory(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.Mkdir(dir, 0o755)) //nolint:gosec // other users enter it
	return dir
}

// The kernel names the user of each connection. Only the owner and the group connect.
func TestPeerUID(t *testing.T) {
	t.Parallel()
	dir := newDirectory(t)
	path := filepath.Join(dir, "socket")
	listener, err := transport.ListenUnix(path)
	require.NoError(t, err)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serveUnix(t, listener, tcp)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o660), info.Mode().Perm())

	get := func(c *http.Client, url string) string {
		res, err := c.Get(url)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, strconv.Itoa(os.Getuid()), get(socketClient(path), "http://localhost/"))
	require.Equal(t, "<nil>", get(http.DefaultClient, "http://"+tcp.Addr().String()), "a TCP connection has no user")

	if os.Getuid() != 0 {
		testenv.Skip(t, "root", "only root becomes another user")
	}
	as := func(uid, gid int) (string, error) {
		c := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this program
		c.Env = []string{fmt.Sprintf("%s=%s %d %d", asUser, dir, uid, gid)}
		text, err := c.Output()
		return string(text), err
	}
	text, err := as(12345, os.Getgid())
	require.NoError(t, err)
	require.Equal(t, "12345", text)
	_, err = as(12345, 12345)
	require.Error(t, err, "another group connects")
}

// A socket of a server that was killed is replaced. One of a server that lives is
// not, nor is a file of another kind.
func TestStaleSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(newDirectory(t), "socket")
	first, err := transport.ListenUnix(path)
	require.NoError(t, err)
	_, err = transport.ListenUnix(path)
	require.ErrorIs(t, err, transport.ErrSocketInUse)
	conn, err := net.Dial("unix", path)
	require.NoError(t, err, "the attempt has removed the socket")
	require.NoError(t, conn.Close())
	require.NoError(t, first.Close())
	require.NoFileExists(t, path)
	require.NoError(t, first.Close(), "a second call")

	for _, name := range []string{path, path + ".new"} { // killed while it listened, and before that
		stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
		require.NoError(t, err)
		stale.SetUnlinkOnClose(false)
		require.NoError(t, stale.Close())
	}
	second, err := transport.ListenUnix(path)
	require.NoError(t, err)
	require.NoFileExists(t, path+".new")
	serveUnix(t, second)
	res, err := socketClient(path).Get("http://localhost/")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
}

// A socket of another program, which holds no lock, stays.
func TestForeignSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(newDirectory(t), "socket")
	foreign, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer foreign.Close() //nolint:errcheck // it is over
	_, err = transport.ListenUnix(path)
	require.ErrorIs(t, err, transport.ErrSocketInUse)
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// What is in the way of a socket is an error and is left alone.
func TestRefusedSockets(t *testing.T) {
	t.Parallel()
	dir := newDirectory(t)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(file, link))
	locked := filepath.Join(dir, "locked")
	require.NoError(t, os.Symlink(file, locked+".lock"))
	open := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777|os.ModeSticky)) //nolint:gosec // that is the test
	for _, path := range []string{
		file, link, locked, dir, filepath.Join(open, "socket"), filepath.Join(dir, "missing", "socket"),
		filepath.Join(dir, strings.Repeat("s", 108)),
	} {
		_, err := transport.ListenUnix(path)
		require.Error(t, err, path)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
}
