package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/access"
)

// Limits of the connections to programs. A response has no time limit: it may be a
// stream. It ends with the claim, with its client, or when the server stops.
const (
	maxIdlePortConns        = 256 // of this server
	maxIdlePortConnsPerPort = 16
	portIdleTimeout         = 20 * time.Second
	maxResponseHeader       = maxHeaderSize
	maxResponseFields       = 256
	// portDrain is how long a request to a port may take when the server stops.
	portDrain = 10 * time.Second
)

// newPortTransport returns what sends requests to ports. The host of a URL is the
// claim: connections are shared by the requests to one port of one claim only.
func newPortTransport(ports Ports) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			claim, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return ports.DialForRequests(ctx, claim, portNumber(port))
		},
		Protocols: protocols, DisableCompression: true,
		MaxIdleConns: maxIdlePortConns, MaxIdleConnsPerHost: maxIdlePortConnsPerPort, IdleConnTimeout: portIdleTimeout,
		MaxResponseHeaderBytes: maxResponseHeader, ExpectContinueTimeout: time.Second,
	}
}

// copyBuffers are the buffers of responses.
type copyBuffers struct{ pool sync.Pool }

const copyBufferSize = 32 << 10

// Get implements httputil.BufferPool.
func (b *copyBuffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, copyBufferSize)
}

// Put implements httputil.BufferPool.
func (b *copyBuffers) Put(buf []byte) { b.pool.Put(&buf) }

// portProxy is one request to a port.
type portProxy struct {
	a   *API
	to  portRoute
	by  portAccess
	in  *http.Request
	ctx context.Context //nolint:containedctx // of the request
	w   *portWriter
}

// proxy passes a request on to the program that listens on a port.
func (a *API) proxy(rec *recorder, r *http.Request, to portRoute, by portAccess) {
	decoded, err := url.PathUnescape(to.path)
	if err != nil {
		rec.refuse(newProblem(r.Context(), InvalidRequest, "the path is not escaped correctly"))
		return
	}
	begun, err := a.o.Ports.BeginRequest(r.Context(), to.claim, access.PortUse{Port: to.port, Method: r.Method, Path: decoded, Host: to.hostOf(r)})
	if err != nil {
		rec.refuse(a.problem(r.Context(), err))
		return
	}
	// Programs may answer while they read.
	_ = rec.control.EnableFullDuplex() // fails for HTTP/2, which does that anyway
	sent := &countedBody{ReadCloser: r.Body}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = sent
	} else {
		sent.isWhole.Store(true)
	}
	w := &portWriter{recorder: rec, sent: sent, upgraded: make(chan struct{})}
	defer sent.finish(rec)
	defer func() { begun.End(rec.status, sent.n.Load()+w.read.Load(), rec.written+w.wrote.Load()) }()
	ctx, cancel := context.WithCancelCause(r.Context())
	if !by.expires.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadlineCause(ctx, by.expires, errLink)
		defer stop()
	}
	var watch errgroup.Group
	watch.Go(func() error { a.cancelAtClose(ctx, cancel, w.upgraded); return nil })
	defer watch.Wait() //nolint:errcheck // it returns none
	defer cancel(nil)
	p := &portProxy{a: a, to: to, by: by, in: r, ctx: ctx, w: w}
	(&httputil.ReverseProxy{
		Rewrite: p.rewrite, ModifyResponse: p.modify, ErrorHandler: p.fail, Transport: p,
		BufferPool: &a.portBuffers, ErrorLog: slog.NewLogLogger(a.o.Log.Handler(), slog.LevelDebug),
	}).ServeHTTP(w, r.WithContext(ctx))
}

// errClosing is the cause when the server stops.
var errClosing = errors.New("the server is stopping")

// cancelAtClose ends a request when the server stops: one that has been upgraded at
// once, another one when it has had some time.
func (a *API) cancelAtClose(ctx context.Context, cancel context.CancelCauseFunc, upgraded <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-a.closing:
	}
	timer := time.NewTimer(portDrain)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-upgraded:
	case <-timer.C:
	}
	cancel(errClosing)
}

// RoundTrip implements http.RoundTripper. It sends the request with the context of
// the client's: that of httputil.ReverseProxy would pass on interim responses,
// whose headers are not restricted. Nor would it close the connection of a program
// that switches to another protocol than the client's.
func (p *portProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := p.a.portTransport.RoundTrip(r.WithContext(p.ctx))
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		return res, err
	}
	asked, given := r.Header.Get("Upgrade"), res.Header.Get("Upgrade")
	// Letters of other alphabets are longer.
	if given != "" && len(asked) == len(given) && strings.EqualFold(asked, given) {
		return res, nil
	}
	return nil, errors.Join(errProtocol, res.Body.Close())
}

// errProtocol is returned for a response with a protocol that the client did not ask
// for.
var errProtocol = errors.New("the program switched to another protocol")

// rewrite makes the request to the program.
func (p *portProxy) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out
	decoded, _ := url.PathUnescape(p.to.path) //nolint:errcheck // proxy has checked it
	out.URL = &url.URL{
		Scheme: "http", Host: net.JoinHostPort(p.to.claim, strconv.Itoa(p.to.port)),
		Path: decoded, RawPath: p.to.path, RawQuery: p.in.URL.RawQuery,
	}
	out.Host = p.to.hostOf(p.in)
	p.to.withoutCredentials(out.Header, p.by, func(header string) bool { return p.a.isIn(p.in.Context(), header) })
	if p.to.ownHost {
		_, out.URL.RawQuery, _ = cutParameter(out.URL.RawQuery, linkParameter)
	}
	if strings.EqualFold(out.Header.Get("Upgrade"), "h2c") { // its requests would pass no gate
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
		out.Header.Del("Http2-Settings")
	}
	pr.SetXForwarded()
	out.Header.Set("X-Forwarded-Proto", p.a.schemeOf(p.in, p.to))
	out.Header.Del("X-Forwarded-Prefix")
	if prefix := p.to.prefix(); prefix != "" {
		out.Header.Set("X-Forwarded-Prefix", prefix)
	}
	out.Header.Set("X-Request-Id", requestID(p.ctx))
}

// schemeOf returns the scheme that the client used, as far as it is known.
func (a *API) schemeOf(r *http.Request, to portRoute) string {
	if to.ownHost {
		return a.o.PortDomain.scheme
	}
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// errFields is returned for a response whose headers take much memory.
var errFields = errors.New("the response has too many header fields")

// modify restricts the response of the program.
func (p *portProxy) modify(res *http.Response) error {
	fields := 0
	for _, values := range res.Header {
		fields += len(values)
	}
	if fields > maxResponseFields {
		return errFields
	}
	if p.to.ownHost {
		for _, name := range append(ownHeaders, "Referrer-Policy") { // those of the program count
			if name != "X-Request-Id" {
				p.w.Header().Del(name)
			}
		}
		res.Header.Del("X-Request-Id")
		restrictSite(res.Header)
	} else {
		p.to.restrict(res.Header)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = &restrictedBody{res.Body, res, p.to.restrictTrailer}
		p.to.restrictTrailer(res.Trailer)
	}
	if p.by.byKey || !p.to.ownHost {
		p.to.localize(p.in, res.Header)
	}
	return nil
}

// fail answers a request that has no response.
func (p *portProxy) fail(_ http.ResponseWriter, _ *http.Request, err error) {
	if cause := context.Cause(p.ctx); cause != nil {
		err = cause
	}
	problem := newProblem(p.ctx, PortFailed, fmt.Sprintf("the program on port %d did not answer as HTTP requires, or closed the connection", p.to.port))
	if code := p.a.classify(err, new(Problem)); code != Internal {
		problem = p.a.problem(p.ctx, err)
	}
	problem.write(p.w)
}

// finish reads a part of what is left of a body. The server itself would do that
// without a bound of time if the body is just being read.
func (b *countedBody) finish(rec *recorder) {
	if b.isWhole.Load() || rec.status == http.StatusSwitchingProtocols {
		return
	}
	rec.endBody()
	b.Close() //nolint:errcheck // the connection is closed in either case
}

// portWriter is the response to a request to a port.
type portWriter struct {
	*recorder
	sent        *countedBody
	upgraded    chan struct{} // closed when the connection is the protocol's
	read, wrote atomic.Int64  // on the connection
}

// WriteHeader implements http.ResponseWriter. The server does not look for the end of
// a body that is passed on, and what is left of it must not be read as a request.
func (w *portWriter) WriteHeader(status int) {
	if !w.sent.isWhole.Load() {
		w.Header().Set("Connection", "close")
	}
	w.recorder.WriteHeader(status)
}

// Hijack implements http.Hijacker for a protocol that the program has agreed to.
func (w *portWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.status = http.StatusSwitchingProtocols
	close(w.upgraded)
	return &upgradedConn{Conn: conn, w: w}, buffered, nil
}

// upgradedConn is the connection of a client. It counts what it carries.
type upgradedConn struct {
	net.Conn
	w *portWriter
}

func (c *upgradedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.w.read.Add(int64(n))
	return n, err
}

func (c *upgradedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.w.wrote.Add(int64(n))
	return n, err
}

// CloseWrite ends what is sent to the client.
func (c *upgradedConn) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite ends one direction of a connection, or both where that is not possible.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// countedBody counts the bytes of a request's body.
type countedBody struct {
	io.ReadCloser
	n       atomic.Int64
	isWhole atomic.Bool // it was read to its end
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	if err == io.EOF { //nolint:errorlint // a reader returns io.EOF itself
		b.isWhole.Store(true)
	}
	return n, err
}
