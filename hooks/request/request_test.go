package request

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
)

func copyTo(b *strings.Builder, r *http.Request) (int64, error) { return io.Copy(b, r.Body) }

// The status decides whether an attempt succeeds, and whether another may. A
// redirect is a status like any other.
func TestStatus(t *testing.T) {
	for _, test := range []struct {
		status   int
		expect   []int
		state    hooks.RunState
		mayRetry bool
	}{
		{200, nil, hooks.Succeeded, false}, {201, nil, hooks.Succeeded, false}, {204, nil, hooks.Succeeded, false},
		{299, nil, hooks.Succeeded, false},
		{301, nil, hooks.Failed, false}, {302, nil, hooks.Failed, false}, {307, nil, hooks.Failed, false}, {308, nil, hooks.Failed, false},
		{304, nil, hooks.Failed, false}, {302, []int{302}, hooks.Succeeded, false},
		{400, nil, hooks.Failed, false}, {401, nil, hooks.Failed, false}, {403, nil, hooks.Failed, false},
		{404, nil, hooks.Failed, false}, {409, nil, hooks.Failed, false}, {410, nil, hooks.Failed, false},
		{409, []int{200, 409}, hooks.Succeeded, false}, {201, []int{200, 409}, hooks.Failed, false},
		{404, []int{200, 204, 404}, hooks.Succeeded, false},
		{408, nil, hooks.Failed, true}, {425, nil, hooks.Failed, true}, {429, nil, hooks.Failed, true},
		{500, nil, hooks.Failed, true}, {501, nil, hooks.Failed, true}, {502, nil, hooks.Failed, true}, {503, nil, hooks.Failed, true},
		{504, nil, hooks.Failed, true}, {500, []int{500}, hooks.Succeeded, false},
	} {
		t.Run(fmt.Sprint(test.status, test.expect), func(t *testing.T) {
			other := receive(t, nil)
			r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", other.URL)
				w.WriteHeader(test.status)
			})
			x := newExecutor(t, Options{})
			res := send(t, x, hooks.Request{URL: template(t, r.URL), Expect: test.expect})
			require.Equal(t, test.state, res.State)
			require.Equal(t, test.status, res.Detail.Status)
			require.Equal(t, test.state != hooks.Succeeded, res.Err != nil)
			if test.state != hooks.Succeeded {
				require.Equal(t, test.mayRetry, ending(x, res).MayRetry)
			}
			require.True(t, ending(x, res).MayContinue)
			require.True(t, res.Gone)
			require.Empty(t, other.all(), "a redirect was followed")
		})
	}
}

// A receiver delays the next attempt with Retry-After, but not for long.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "1.5": 0,
		"86400": MaxRetryAfter, "99999999999999999999999": MaxRetryAfter,
		now.Add(time.Minute).Format(http.TimeFormat):    time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat):   0,
		now.Add(24 * time.Hour).Format(http.TimeFormat): MaxRetryAfter,
	} {
		require.Equal(t, want, retryAfter(header, now), "%q", header)
	}
	for status, want := range map[int]time.Duration{429: 7 * time.Second, 503: 7 * time.Second, 404: 0, 200: 0} {
		r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		})
		require.Equal(t, want, send(t, newExecutor(t, Options{}), hooks.Request{URL: template(t, r.URL)}).RetryAfter, "%d", status)
	}
}

// A receiver ends the point as a success with a header, unless it failed.
func TestStopHeader(t *testing.T) {
	for _, test := range []struct {
		status int
		header string
		want   bool
	}{{200, "1", true}, {200, "0", false}, {200, "true", false}, {200, "", false}, {500, "1", false}} {
		r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Hostler-Stop", test.header)
			w.WriteHeader(test.status)
		})
		require.Equal(t, test.want, send(t, newExecutor(t, Options{}), hooks.Request{URL: template(t, r.URL)}).Stop, "%v", test)
	}
}

// The method is GET without and POST with a body, unless the action has one. A
// webhook posts the envelope.
func TestMethodAndBody(t *testing.T) {
	for name, test := range map[string]struct {
		request hooks.Request
		method  string
		body    string
		content string
	}{
		"get":                 {hooks.Request{}, "GET", "", ""},
		"post":                {hooks.Request{Body: bodyOf(t, "x")}, "POST", "x", ""},
		"put":                 {hooks.Request{Method: "PUT", Body: bodyOf(t, "x")}, "PUT", "x", ""},
		"delete":              {hooks.Request{Method: "DELETE"}, "DELETE", "", ""},
		"get with a body":     {hooks.Request{Method: "GET", Body: bodyOf(t, "x")}, "GET", "x", ""},
		"webhook":             {hooks.Request{Webhook: true}, "POST", `{"type":"claim.released","seq":7}`, "application/json"},
		"webhook with a body": {hooks.Request{Webhook: true, Body: bodyOf(t, `{"text":"x"}`)}, "POST", `{"text":"x"}`, "application/json"},
		"webhook with a type": {
			hooks.Request{Webhook: true, Body: bodyOf(t, `x`), Headers: map[string]variables.Template{"content-type": template(t, "text/plain")}},
			"POST", "x", "text/plain",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := receive(t, nil)
			test.request.URL = template(t, r.URL+"/a")
			res := send(t, newExecutor(t, Options{}), test.request)
			require.NoError(t, res.Err)
			got := r.one(t)
			require.Equal(t, test.method, got.method)
			require.Equal(t, test.body, got.body)
			require.Equal(t, test.content, got.header.Get("Content-Type"))
		})
	}
}

// The headers that identify an attempt are the same at each, and an action
// cannot set them, nor those that determine the connection.
func TestIdentifyingHeaders(t *testing.T) {
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	x := newExecutor(t, Options{})
	a := attemptOf(hooks.Request{URL: template(t, r.URL), Body: bodyOf(t, "x")})
	a.Hook = "ein Name\r\nX: y"
	for a.Attempt = 1; a.Attempt <= 3; a.Attempt++ {
		require.Equal(t, hooks.Failed, x.Execute(t.Context(), a).State)
	}
	require.Len(t, r.all(), 3)
	for _, got := range r.all() {
		require.Equal(t, []string{"run-1"}, got.header.Values(hooks.HeaderKey))
		require.Equal(t, []string{"c-1:ein%20Name%0D%0AX:%20y:post_claim:run-1"}, got.header.Values(hooks.HeaderID))
		require.Equal(t, "hostler", got.header.Get("User-Agent"))
	}
	a.Attempt, a.Hook, a.Point, a.Event = 1, "notify", "", "claim.failed"
	require.Equal(t, hooks.Failed, x.Execute(t.Context(), a).State)
	require.Equal(t, "c-1:notify:claim.failed:run-1", r.all()[3].header.Get(hooks.HeaderID))
	for _, name := range []string{
		"Host", "content-length", "Transfer-Encoding", "Connection", "Upgrade", "Proxy-Authorization", "TE", "Trailer",
		"idempotency-key", "X-Hostler-Hook-ID", "webhook-signature", "", "a b", "a:b", "a\r\nb", "ä",
	} {
		res := send(t, x, hooks.Request{URL: template(t, r.URL), Headers: map[string]variables.Template{name: template(t, "x")}})
		require.Equal(t, hooks.StartFailed, res.State, name)
	}
	require.Len(t, r.all(), 4)
}

// The host of a request is that of its URL.
func TestHostHeader(t *testing.T) {
	r := receive(t, nil)
	require.NoError(t, send(t, newExecutor(t, Options{}), hooks.Request{URL: template(t, r.URL)}).Err)
	require.Equal(t, strings.TrimPrefix(r.URL, "http://"), r.one(t).host)
}

// A value of a tenant stays in its place, and its variables are not expanded.
// Where it cannot stand, nothing is sent.
func TestUntrustedValues(t *testing.T) {
	hostile := "\"}, \"admin\": true, ${SECRET}\r\nX: y\n/../?a=b&c#d" + strings.Repeat("ä", 1000)
	r := receive(t, nil)
	x := newExecutor(t, Options{})
	a := attemptOf(hooks.Request{URL: template(t, r.URL+"/q?v=${V}"), Body: bodyOf(t, `{"v": "${V}"}`)})
	a.Lookup = values(map[string]string{"V": hostile, "SECRET": "12345678"})
	require.NoError(t, x.Execute(t.Context(), a).Err)
	got := r.one(t)
	require.JSONEq(t, `{"v": `+quoted(t, hostile)+`}`, got.body)
	require.Equal(t, "/q", got.path)
	require.NotContains(t, got.body+got.query, "12345678")

	for name, request := range map[string]hooks.Request{
		"host":      {URL: template(t, "http://${V}/")},
		"header":    {URL: template(t, r.URL), Headers: map[string]variables.Template{"X": template(t, "${V}")}},
		"raw body":  {URL: template(t, r.URL), Body: bodyOf(t, "v=${V}")},
		"segment":   {URL: template(t, r.URL+"/${DOTS}/a")},
		"empty":     {URL: template(t, r.URL+"/${EMPTY}/a")},
		"unknown":   {URL: template(t, r.URL+"/?a=${NONE}")},
		"1 MiB":     {URL: template(t, r.URL), Body: bodyOf(t, `"${LONG}"`)},
		"tunnel":    {Method: "CONNECT", URL: template(t, r.URL)},
		"long path": {URL: template(t, r.URL+"/${LONG}")},
	} {
		a := attemptOf(request)
		a.Lookup = values(map[string]string{"V": hostile, "DOTS": "..", "EMPTY": "", "LONG": strings.Repeat("x", 1<<20)})
		res := x.Execute(t.Context(), a)
		require.Equal(t, hooks.StartFailed, res.State, "%s: %v", name, res.Err)
		require.False(t, ending(x, res).MayRetry)
		require.NotContains(t, res.Err.Error(), "admin", name)
	}
	require.Len(t, r.all(), 1)
}

// A variable without a value is empty in a body, with a warning, and never the
// text of the template.
func TestEmptyVariable(t *testing.T) {
	r := receive(t, nil)
	res := send(t, newExecutor(t, Options{}), hooks.Request{URL: template(t, r.URL), Body: bodyOf(t, `{"v": "${NONE}"}`)})
	require.NoError(t, res.Err)
	require.Equal(t, `{"v": ""}`, r.one(t).body)
	require.Equal(t, []string{"the variable NONE is empty"}, res.Warnings)
}

// A request whose server stopped has no result, and nothing of it is left.
func TestWaitResult(t *testing.T) {
	x := newExecutor(t, Options{})
	res := x.WaitResult(t.Context(), attemptOf(hooks.Request{}))
	require.Equal(t, hooks.Unknown, res.State)
	require.True(t, res.Gone)
	require.Error(t, res.Err)
	require.False(t, ending(x, res).MayRetry)
}
