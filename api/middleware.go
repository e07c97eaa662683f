package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

type requestKey struct{}

// requestID returns the id of the request that ctx belongs to.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// clientRequestID matches the request ids that are accepted from clients.
var clientRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// middleware returns the handler of every request, from the outside in.
func (a *API) middleware(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !clientRequestID.MatchString(id) {
			id = uuid.NewString()
		}
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, id))
		rec := &recorder{ResponseWriter: w, control: http.NewResponseController(w), timeout: a.o.WriteTimeout, lastTimeout: a.o.LastWriteTimeout}
		_ = rec.control.SetWriteDeadline(time.Time{}) // that of http.Server. Tests have none
		h := rec.Header()
		h.Set("X-Request-Id", id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		a.logAccess(rec, r, func() (principal string) {
			defer a.recoverPanic(rec, r)
			r, recordDenial := a.withDenial(r)
			defer recordDenial()
			if by, served := a.serveAtPort(rec, r); served {
				return by
			}
			p, refused := a.authenticate(r)
			r, release := a.asPrincipal(r, p)
			defer release()
			principal = loggedName(p)
			defer rec.cutOff(r.Context())()
			if refused == nil {
				refused = a.limitRequests(r.Context(), p, "")
			}
			for _, check := range []func(*recorder, *http.Request) *Problem{validateURL, a.checkRoute} {
				if refused == nil {
					refused = check(rec, r)
				}
			}
			if refused != nil {
				rec.refuse(refused)
				return principal
			}
			mux.ServeHTTP(rec, r)
			return principal
		})
	})
}

// logAccess writes the access log. Successful reads are logged at debug level.
func (a *API) logAccess(rec *recorder, r *http.Request, serve func() string) {
	begin := time.Now()
	var principal string
	end := a.observe(rec, r)
	defer func() { // also when a panic aborts the response
		end(time.Since(begin))
		level := slog.LevelInfo
		if (r.Method == http.MethodGet || r.Method == http.MethodHead) && rec.status < 400 {
			level = slog.LevelDebug
		}
		a.o.Log.Log(r.Context(), level, "request", "request", requestID(r.Context()),
			"method", logged(r.Method), "path", cmp.Or(rec.path, loggedPath(r.URL.Path)), "status", rec.status, "bytes", rec.written,
			"duration_ms", float64(time.Since(begin).Microseconds())/1000, "key", principal, "remote", r.RemoteAddr)
	}()
	principal = serve()
}

// recoverPanic turns a panic into a 500.
func (a *API) recoverPanic(rec *recorder, r *http.Request) {
	p := recover()
	switch {
	case p == nil:
		return
	case isAbort(p):
		panic(p) // net/http's way to abort a response
	case rec.failed != nil:
		// Encoding a response panics when the client has disconnected.
		a.o.Log.DebugContext(r.Context(), "response not delivered", "request", requestID(r.Context()), "error", rec.failed)
		return
	}
	a.o.Log.ErrorContext(r.Context(), "panic in a request", "request", requestID(r.Context()), "panic", p, "stack", string(debug.Stack()))
	if rec.status != 0 {
		panic(http.ErrAbortHandler) // a partial response must not look complete
	}
	newProblem(r.Context(), Internal, "The server's log has the details, under the request id "+requestID(r.Context())+".").write(rec)
}

func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// maxParameters bounds the parameters of a URL: each unknown one is an error of huma's,
// of a hundred times its length.
const maxParameters = 500

// validateURL refuses bytes that are not text, which no id, name or filter has.
// The database need not handle them.
func validateURL(_ *recorder, r *http.Request) *Problem {
	if strings.Count(r.URL.RawQuery, "&") >= maxParameters {
		return newProblem(r.Context(), InvalidRequest, fmt.Sprintf("the URL has more than %d parameters", maxParameters))
	}
	bad := newProblem(r.Context(), InvalidRequest, "the URL contains characters that are not allowed")
	bad.Status = http.StatusBadRequest
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !isText(r.URL.Path) {
		return bad
	}
	for name, values := range query {
		if !isText(name) || !isText(strings.Join(values, "")) {
			return bad
		}
	}
	return nil
}

func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// checkRoute refuses requests that the mux would refuse or redirect with plain
// text.
func (a *API) checkRoute(_ *recorder, r *http.Request) *Problem {
	h, pattern := a.mux.Handler(r)
	if strings.HasSuffix(pattern, filePattern) {
		return checkFilePath(r)
	}
	if r.URL.Path != path.Clean(r.URL.Path) && !(strings.HasSuffix(pattern, quotaRoute) && isCleanQuotaPath(r)) {
		return newProblem(r.Context(), NotFound, "no such path: "+quote(r.URL.Path))
	}
	if attaching[pattern] {
		return a.checkAttaching(r)
	}
	// The mux would redirect the list of keys to the empty key, where it has no route.
	isList := strings.HasSuffix(pattern, keyPattern) && strings.Count(r.URL.EscapedPath(), "/") < strings.Count(pattern, "/")
	if pattern != "" && !isList {
		return nil
	}
	allow := "GET, HEAD"
	if !isList {
		var answer discardWriter
		h.ServeHTTP(&answer, r)
		allow = answer.header.Get("Allow")
	}
	if allow == "" {
		return newProblem(r.Context(), NotFound, "no such path: "+quote(r.URL.Path))
	}
	p := newProblem(r.Context(), MethodNotAllowed, quote(r.URL.Path)+" allows "+allow)
	p.allow = allow
	return p
}

// attaching are the patterns of requests that attach to a command: they take the
// place of another reader, and acknowledge output.
var attaching = map[string]bool{
	"GET " + execPath + "/attach": true, "GET " + execPath + "/{command}/attach": true, "GET " + execPath + "/{command}/output": true,
}

// checkAttaching refuses what a browser sends for a page of another origin. Such a
// GET is permitted otherwise.
func (a *API) checkAttaching(r *http.Request) *Problem {
	changing := r.Clone(r.Context())
	changing.Method = http.MethodPost
	if a.crossOrigin.Check(changing) != nil {
		return newProblem(r.Context(), Forbidden, "cross-origin requests that change state are not allowed")
	}
	return nil
}

// discardWriter discards a response.
type discardWriter struct{ header http.Header }

func (p *discardWriter) Header() http.Header {
	if p.header == nil {
		p.header = http.Header{}
	}
	return p.header
}
func (*discardWriter) Write(b []byte) (int, error) { return len(b), nil }
func (*discardWriter) WriteHeader(int)             {}
