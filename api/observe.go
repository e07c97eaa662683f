package api

import (
	"mime"
	"net/http"
	"strings"
	"time"
)

// Served describes a request that was answered. A client chooses none of its texts.
type Served struct {
	Method string // of the route; empty for a request to a port
	// Route is the path of the route, such as /v1/claims/{id}: RouteOfPorts, or empty
	// if there is no such route.
	Route    string
	Status   int // 0 if the response was aborted before its first byte
	Duration time.Duration
	// IsStream reports whether the response takes as long as its client or a program
	// wants.
	IsStream bool
}

// RouteOfPorts is the Route of requests to ports of claims, also by an address of
// their domain.
const RouteOfPorts = "/v1/claims/{id}/ports/{port}/"

// observe calls Options.OnRequest now, and what that returns when the request was
// answered.
func (a *API) observe(rec *recorder, r *http.Request) (end func(time.Duration)) {
	if a.o.OnRequest == nil {
		return func(time.Duration) {}
	}
	done := a.o.OnRequest()
	return func(d time.Duration) {
		served := Served{Status: rec.status, Duration: d}
		if rec.path != "" { // of a port
			served.Route, served.IsStream = RouteOfPorts, true
		} else if pattern := a.patternOf(r); pattern != "" {
			served.Method, served.Route, _ = strings.Cut(pattern, " ")
		}
		t, _, err := mime.ParseMediaType(rec.Header().Get("Content-Type"))
		served.IsStream = served.IsStream || rec.status == http.StatusSwitchingProtocols || err == nil && (t == typeSSE || t == typeNDJSON)
		done(served)
	}
}

// patternOf returns the pattern of the route that serves a request, or "".
func (a *API) patternOf(r *http.Request) string {
	_, pattern := a.mux.Handler(r)
	return strings.NewReplacer(keyPattern, keyPath, filePattern, filePath).Replace(pattern)
}

// observeFollower reports a stream of events, until the returned function is called.
func (a *API) observeFollower() (end func()) {
	if a.o.OnFollower == nil {
		return func() {}
	}
	return a.o.OnFollower()
}
