package e2e

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// claimWeb claims a container whose main process serves HTTP on its loopback
// interface only, and waits until it does. It returns the port, and one that nothing
// listens on.
func (s *server) claimWeb(id string) (g tenantSession, port, refused int) {
	s.t.Helper()
	port, refused = freePort(s.t), freePort(s.t)
	rest := fmt.Sprintf("ports: [%d, %d]\npool: { min_idle: 0, max_size: 2 }\n", port, refused)
	text := strings.Replace(workload(s.t, s.rt, id, rest), ", idle]", fmt.Sprintf(", web, \"127.0.0.1:%d\"]", port), 1)
	_, err := s.Apply(s.t.Context(), id, []byte(text))
	require.NoError(s.t, err)
	g = s.claimAs(id, "ada")
	testenv.AwaitTrue(s.t, "the port", func() bool {
		conn, err := s.Port(g.ID, port).DialContext(s.t.Context(), "", "")
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	return g, port, refused
}

// A tenant reaches a program that listens on the loopback interface of its container
// through the API: with HTTP, with another protocol, with a link and with a forwarded
// port. The release ends it.
func TestPorts(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt, "--port-domain", "http://ports.localhost")
		g, port, refused := s.claimWeb("web")
		base := fmt.Sprintf("%s/v1/claims/%s/ports/%d", s.base, g.ID, port)
		requireWeb(t, &http.Client{}, base)
		requireWeb(t, &http.Client{Transport: s.Port(g.ID, port)}, "http://port")

		_, err := s.Port(g.ID, refused).DialContext(t.Context(), "", "")
		require.Equal(t, client.CodePortRefused, codeOf(t, err))
		_, err = s.Port(g.ID, refused).RoundTrip(get(t, "http://port/", ""))
		require.Equal(t, client.CodePortRefused, codeOf(t, err))

		socket := openSocket(t, s.base, base)
		s.requireLink(g, port)
		local := s.forward(g, port)
		requireWeb(t, &http.Client{}, "http://"+local)

		s.mustCLI("release", g.ID)
		_, err = io.ReadAll(socket)
		require.Condition(t, func() bool { return err == nil || !strings.Contains(err.Error(), "timeout") }, "the connection has ended: %v", err)
		_, err = s.Port(g.ID, port).DialContext(t.Context(), "", "")
		require.Equal(t, client.CodeClaimNotActive, codeOf(t, err))
	})
}

// codeOf returns the code of the server's error.
func codeOf(t *testing.T, err error) client.Code {
	t.Helper()
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	return refused.Code
}

// get returns a request with a host.
func get(t *testing.T, target, host string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	require.NoError(t, err)
	r.Host = host
	return r
}

// requireWeb asserts that requests reach box's web program.
func requireWeb(t *testing.T, c *http.Client, base string) {
	t.Helper()
	resp, err := c.Get(base + "/a%2Fb?c=d")
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	require.Contains(t, string(text), "GET /a%2Fb?c=d ")
	large := make([]byte, 10<<20)
	rand.Read(large) //nolint:errcheck // documented never to fail
	for name, body := range map[string]io.Reader{
		"with a length": bytes.NewReader(large), "in chunks": struct{ io.Reader }{bytes.NewReader(large)},
	} {
		resp, err := c.Post(base+"/echo", "application/octet-stream", body)
		require.NoError(t, err, name)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err, name)
		resp.Body.Close()
		require.True(t, bytes.Equal(large, got), "%s: %d bytes", name, len(got))
	}
}

// openSocket opens a WebSocket and sends bytes over it, which come back.
func openSocket(t *testing.T, server, target string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	u, err := url.Parse(target)
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "GET %s/socket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", u.Path, u.Host)
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	for range 3 {
		_, err = io.WriteString(conn, "ping")
		require.NoError(t, err)
		got := make([]byte, 4)
		_, err = io.ReadFull(r, got)
		require.NoError(t, err)
		require.Equal(t, "ping", string(got))
	}
	return conn
}

// requireLink asserts that a link opens the port's own host, and nothing does
// without one of its cookie's kind for another port.
func (s *server) requireLink(g tenantSession, port int) {
	t := s.t
	t.Helper()
	link := strings.TrimSpace(s.mustCLI("link", g.ID, fmt.Sprint(port), "--expires", "5m"))
	u, err := url.Parse(link)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d-%s.ports.localhost", port, g.ID), u.Host)
	resp, err := http.DefaultTransport.RoundTrip(get(t, s.base+"/?"+u.RawQuery, u.Host))
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	r := get(t, s.base+"/page", u.Host)
	r.AddCookie(resp.Cookies()[0])
	resp, err = http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "GET /page "+u.Host)
	require.NotContains(t, string(text), "hostler_link")
	require.NotContains(t, s.log.String(), u.Query().Get("hostler_link"))
}

// forward forwards a port with the command line until the test ends, and asserts
// that it ends with the claim. It returns the local address.
func (s *server) forward(g tenantSession, port int) string {
	t := s.t
	t.Helper()
	cmd := exec.Command(program(t, "hostler"), "port-forward", g.ID, fmt.Sprintf("0:%d", port))
	cmd.Env = environment("HOSTLER_SERVER=" + s.base)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }() // ends with the process
		defer cmd.Process.Kill()            //nolint:errcheck // it may have ended
		var exited *exec.ExitError
		require.ErrorAs(t, testenv.Await(t, ended, "port-forward ends with the claim"), &exited, "the claim has ended")
		require.Regexp(t, "is (releasing|released)", errOut.String(), "it looks during the release or after it")
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	address, to, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "Forwarding from ")), " to port ")
	require.True(t, ok, line)
	require.Equal(t, fmt.Sprint(port), to)
	return address
}
