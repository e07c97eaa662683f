package api_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/internal/pipetest"
)

const (
	viewerKey = "viewerviewerviewer"
	tenantKey = "tenanttenanttenant"
)

// bodyServer is a hostileServer with principals that have limits.
func bodyServer(t *testing.T) *pipetest.Server {
	t.Helper()
	o := newTestBackend().Options()
	keys := testKeys()
	keys.known[viewerKey] = &auth.Principal{Actor: "key:viewer", Grants: []auth.Grant{{Role: auth.Viewer}}}
	keys.known[tenantKey] = &auth.Principal{Actor: "key:tenant", Grants: []auth.Grant{{Role: auth.Tenant, Tenants: []activity.Pattern{activity.Exactly("carol")}}}}
	o.Auth = keys
	return pipetest.Serve(t, api.NewServer(api.New(o), slog.New(slog.DiscardHandler)))
}

// begin sends the headers of a request and a part of its body.
func begin(t *testing.T, s *pipetest.Server, key, route, headers, body string) net.Conn {
	t.Helper()
	conn := s.Dial()
	_, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s", route, key, headers, body)
	require.NoError(t, err)
	return conn
}

// status returns the status of the response, 100 for a body that is wanted.
func status(t *testing.T, conn net.Conn) int {
	t.Helper()
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	var code int
	_, err = fmt.Sscanf(line, "HTTP/1.1 %d", &code)
	require.NoError(t, err)
	return code
}

// Nothing is read of a body before it is known that its sender may do what it asks
// for, and that it is not too large: the answer comes without a byte of it, and no
// "100 Continue" asks for one.
func TestBodyIsReadLast(t *testing.T) {
	for _, test := range []struct {
		key, route string
		length     int
		want       int
	}{
		{viewerKey, "POST /v1/keys", 1000, http.StatusForbidden},
		{viewerKey, "POST /v1/claims/claim-1/exec", 1000, http.StatusForbidden},
		{viewerKey, "PUT /v1/claims/claim-1/files/x", 1 << 30, http.StatusForbidden},
		{tenantKey, "POST /v1/claims/claim-1/exec", 1000, http.StatusNotFound},
		{tenantKey, "PUT /v1/claims/claim-1/files/x", 1 << 30, http.StatusNotFound},
		{key1, "POST /v1/claims/claim-1/nothing", 1000, http.StatusNotFound},
		{key1, "POST /v1/claims/claim-1/touch", 64<<10 + 1, http.StatusRequestEntityTooLarge},
		{key1, "POST /v1/claims/claim-1/touch", 64 << 10, http.StatusContinue},
		{key1, "POST /v1/claims", 256<<10 + 1, http.StatusRequestEntityTooLarge},
		{key1, "POST /v1/claims", 256 << 10, http.StatusContinue},
		{key1, "POST /v1/claims/claim-1/exec", 1<<20 + 1, http.StatusRequestEntityTooLarge},
		{key1, "POST /v1/claims/claim-1/exec", 1 << 20, http.StatusContinue},
		{key1, "PUT /v1/workloads/web", 1 << 20, http.StatusContinue},
	} {
		lengths := []string{fmt.Sprintf("Content-Length: %d", test.length)}
		if test.want != http.StatusRequestEntityTooLarge {
			lengths = append(lengths, "Transfer-Encoding: chunked")
		}
		for _, length := range lengths {
			synctest.Test(t, func(t *testing.T) {
				s := bodyServer(t)
				conn := begin(t, s, test.key, test.route, length+"\r\nExpect: 100-continue", "")
				require.Equal(t, test.want, status(t, conn), "%s %s", test.route, length)
				require.NoError(t, conn.Close())
			})
		}
	}
}

// The bodies of a credential that are in memory are bounded, with its others, before
// they are read: also one without a length. When one ends there is room again.
func TestBodiesInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bodyServer(t)
		exec := "POST /v1/claims/claim-1/exec"
		part := strings.Repeat("x", 100<<10)
		for i := range 8 {
			headers := "Content-Length: 1048576"
			if i%2 == 0 {
				headers = "Transfer-Encoding: chunked"
			}
			begin(t, s, key1, exec, headers, "")
		}
		synctest.Wait()
		conn := begin(t, s, key1, exec, "Content-Length: 1048576\r\nExpect: 100-continue", "")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
		require.Equal(t, "1", res.Header.Get("Retry-After"))
		require.NoError(t, res.Body.Close())

		small := begin(t, s, key1, "POST /v1/claims/claim-1/touch", "Content-Length: 65536\r\nExpect: 100-continue", "")
		require.Equal(t, http.StatusContinue, status(t, small), "its first 64 KiB")
		other := begin(t, s, key2, exec, "Content-Length: 1048576", part)
		<-time.After(9 * time.Second)
		_, err = io.WriteString(other, part) // fast enough
		require.NoError(t, err)
		<-time.After(2 * time.Second) // those that send nothing have ended
		again := begin(t, s, key1, exec, "Content-Length: 1048576\r\nExpect: 100-continue", "")
		require.Equal(t, http.StatusContinue, status(t, again))
		_, err = io.WriteString(other, part)
		require.NoError(t, err, "it is not ended by the time of the whole body")
		<-time.After(11 * time.Second)
		require.Equal(t, http.StatusRequestTimeout, status(t, other))
	})
}

// Headers that do not end have five seconds, and 24 KiB.
func TestUnfinishedHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bodyServer(t)
		begin := time.Now()
		conn := s.Dial()
		_, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
		require.NoError(t, err)
		_, err = io.ReadAll(conn)
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, time.Since(begin))
		for length, want := range map[int]int{23 << 10: http.StatusOK, 25 << 10: http.StatusRequestHeaderFieldsTooLarge} {
			conn := s.Dial()
			go fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", length)) //nolint:errcheck // the rest need not be read
			require.Equal(t, want, status(t, conn), length)
			require.NoError(t, conn.Close())
		}
	})
}
