package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/pipetest"
)

const (
	viewerKey = "viewerviewerviewer"
	tenantKey = "tenanttenanttenant"

	tokenOfKey1 = "tokentokentokentoken"
)

// bodyServer is a hostileServer with principals that have limits.
func bodyServer(t *testing.T, change ...func(*api.Options)) *pipetest.Server {
	t.Helper()
	o := newTestBackend().Options()
	for _, c := range change {
		c(&o)
	}
	keys := testKeys()
	keys.known[viewerKey] = &auth.Principal{Actor: "key:viewer", Grants: []auth.Grant{{Role: auth.Viewer}}}
	keys.known[tokenOfKey1] = &auth.Principal{Actor: "token:key:ops#carol", Grants: []auth.Grant{{Role: auth.Operator}}}
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

// The bodies of a sender that are in memory are bounded, with its others, before they
// are read. One without a length counts as it arrives, those of tokens count for who
// made them, and what no handler takes does not count. When one ends there is room.
func TestBodiesInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bodyServer(t)
		exec := "POST /v1/claims/claim-1/exec"
		part := strings.Repeat("x", 100<<10)
		for i := range 7 {
			begin(t, s, []string{key1, tokenOfKey1}[i%2], exec, "Content-Length: 1048576", "")
		}
		for range 8 {
			begin(t, s, key1, exec, "Transfer-Encoding: chunked", "")
		}
		synctest.Wait()
		growing := begin(t, s, key1, exec, "Transfer-Encoding: chunked", "")
		go fmt.Fprintf(growing, "80000\r\n%s\r\n", strings.Repeat("x", 512<<10)) //nolint:errcheck // the rest need not be read
		for _, conn := range []net.Conn{growing, begin(t, s, tokenOfKey1, exec, "Content-Length: 1048576\r\nExpect: 100-continue", "")} {
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
			require.Equal(t, "1", res.Header.Get("Retry-After"))
			require.NoError(t, res.Body.Close())
		}

		rest := begin(t, s, key1, exec, "Content-Length: 589824\r\nExpect: 100-continue", "") // all but 64 KiB; the token has had 64 KiB of its own
		require.Equal(t, http.StatusContinue, status(t, rest))
		small := "Content-Length: 65536\r\nExpect: 100-continue"
		require.Equal(t, http.StatusContinue, status(t, begin(t, s, key1, "POST /v1/claims/claim-1/extend", small, "")))
		require.Equal(t, http.StatusTooManyRequests, status(t, begin(t, s, key1, "POST /v1/claims/claim-1/extend", small, "")))
		require.Equal(t, http.StatusContinue, status(t, begin(t, s, key1, "POST /v1/claims/claim-1/touch", small, "")))
		other := begin(t, s, key2, exec, "Content-Length: 1048576", part)
		<-time.After(9 * time.Second)
		_, err := io.WriteString(other, part) // fast enough
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

// Headers that do not end have five seconds, and 16 KiB.
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
		for length, want := range map[int]int{15 << 10: http.StatusOK, 17 << 10: http.StatusRequestHeaderFieldsTooLarge} {
			conn := s.Dial()
			go fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", length)) //nolint:errcheck // the rest need not be read
			require.Equal(t, want, status(t, conn), length)
			require.NoError(t, conn.Close())
		}
	})
}

// waitingClaimer has claims that wait.
type waitingClaimer struct {
	api.Claimer
	waiting chan struct{}
}

func (c waitingClaimer) Claim(ctx context.Context, _ claim.Request) (claim.Claim, bool, error) {
	c.waiting <- struct{}{}
	<-ctx.Done()
	return claim.Claim{}, false, ctx.Err()
}

// object is an object with about so many parts.
func object(parts int, value string) string {
	var b strings.Builder
	b.WriteString(`{"x":` + value)
	for i := range parts/2 - 10 {
		fmt.Fprintf(&b, `,"%d":%s`, i, value)
	}
	return b.String() + "}"
}

// labelled is a request for a claim with labels.
func labelled(labels string) string { return `{"workload":"web","tenant":"a","labels":` + labels + `}` }

// What it takes to decode a body counts until it is decoded, however long the request
// waits then.
func TestDecodedBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := make(chan struct{}, 3)
		s := bodyServer(t, func(o *api.Options) { o.Claimer = waitingClaimer{o.Claimer, waiting} })
		body := labelled(object(20_000, `""`))
		for range cap(waiting) {
			begin(t, s, key1, "POST /v1/claims", fmt.Sprintf("Content-Length: %d", len(body)), body)
			synctest.Wait()
		}
		require.Len(t, waiting, cap(waiting))
		for range 4 {
			begin(t, s, key1, "POST /v1/claims/claim-1/exec", "Content-Length: 1048576", "")
		}
		synctest.Wait()
		refused := begin(t, s, key1, "POST /v1/claims", fmt.Sprintf("Content-Length: %d", len(body)), body)
		require.Equal(t, http.StatusTooManyRequests, status(t, refused))
	})
}

// A body with many parts costs no more than it counts, whatever is wrong with them, and
// one with more is not decoded. Its problem has some of its errors.
func TestBodyWithManyParts(t *testing.T) {
	b := newTestBackend()
	server := api.New(b.Options())
	send := func(route, body string) *httptest.ResponseRecorder {
		method, path, _ := strings.Cut(route, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Host = "localhost"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		return w
	}
	const parts = 20_000
	list := func(n int, element string) string {
		return `{"command":[` + strings.Repeat(element+",", n-4) + element + `]}`
	}
	exec := "POST /v1/claims/claim-1/exec"
	for name, c := range map[string]struct{ route, body string }{
		"elements":   {exec, list(parts, "0")},
		"lists":      {exec, list(parts/2, "[]")},
		"objects":    {exec, list(parts/3, `{"":0}`)},
		"labels":     {"POST /v1/claims", labelled(object(parts, "0"))},
		"properties": {"POST /v1/claims", object(parts, "0")},
	} {
		send(c.route, c.body)
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		w := send(c.route, c.body)
		goruntime.ReadMemStats(&after)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, name)
		require.Contains(t, w.Body.String(), "more errors", name)
		require.Less(t, w.Body.Len(), 20<<10, name)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)/parts, uint64(2*256), "%s, with what is collected in between", name)
	}
	w := send(exec, list(1<<19-20, "0"))
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Contains(t, w.Body.String(), "JSON values and names, more than 20000")
	w = send("POST /v1/claims", `{"`+strings.Repeat("<", 200<<10)+`":0}`)
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Less(t, w.Body.Len(), 10<<10)
}
