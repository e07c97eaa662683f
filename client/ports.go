package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Port is a TCP port of a claim's container. Its methods may be called by many
// goroutines at once.
//
// It is an http.RoundTripper: a request with any host reaches the program that
// listens on the port, as in
//
//	web := http.Client{Transport: c.Port(claim, 8080)}
//	resp, err := web.Get("http://port/index.html")
//
// The program gets neither Authorization nor cookies: dial for these.
type Port struct {
	client *Client
	path   string
	number int
}

// Port returns a port of a claim's container.
func (c *Client) Port(claim string, port int) *Port {
	return &Port{client: c, path: path("/v1/claims", claim) + "/ports/" + strconv.Itoa(port), number: port}
}

// DialContext opens a connection to the port through the server. The network and
// the address are ignored: it can be the DialContext of an http.Transport. A program
// that does not listen is an *Error with CodePortRefused, a claim that has ended one
// with CodeClaimNotActive. The connection has no deadlines; its CloseWrite ends what
// is sent. It ends with the claim.
func (p *Port) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.client.base+p.path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "tcp")
	if err := p.client.authorize(r); err != nil {
		return nil, err
	}
	transport := p.client.upgradeTransport()
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("%w from the server at %s: %w", ErrNoResponse, p.client.name, err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close() //nolint:errcheck // it was only read
		return nil, decodeProblem(resp)
	}
	stream, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		return nil, errors.New("the connection cannot be written to")
	}
	return &portConn{ReadWriteCloser: stream, address: portAddress(p.number)}, nil
}

// RoundTrip implements http.RoundTripper. A response of the server itself, and not
// of the program, is returned as an *Error where it is a problem.
func (p *Port) RoundTrip(r *http.Request) (*http.Response, error) {
	base, err := url.Parse(p.client.base)
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	escaped := r.URL.EscapedPath()
	if !strings.HasPrefix(escaped, "/") {
		escaped = "/" + escaped
	}
	out := r.Clone(r.Context())
	out.URL = &url.URL{
		Scheme: base.Scheme, Host: base.Host, RawQuery: r.URL.RawQuery,
		Path: base.Path + p.path + unescape(escaped), RawPath: base.EscapedPath() + p.path + escaped,
	}
	out.Host = ""
	out.Header.Del("Cookie")
	if err := p.client.authorize(out); err != nil {
		return nil, err
	}
	resp, err := p.client.http.Transport.RoundTrip(out)
	if err != nil {
		return nil, fmt.Errorf("%w from the server at %s: %w", ErrNoResponse, p.client.name, err)
	}
	resp.Request = r
	if location, ok := strings.CutPrefix(resp.Header.Get("Location"), p.path+"/"); ok {
		resp.Header.Set("Location", "/"+location)
	}
	if problem := ownProblem(resp); problem != nil {
		return nil, problem
	}
	return resp, nil
}

// unescape returns the path for an escaped one, which is correct.
func unescape(escaped string) string {
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return escaped
	}
	return plain
}

// ownProblem returns the problem that the server has sent in place of a program's
// response, or nil. A program's own problems have no such type.
func ownProblem(resp *http.Response) error {
	if resp.StatusCode < http.StatusBadRequest || resp.Header.Get("Content-Type") != "application/problem+json" {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), rest), rest}
	var e Error
	if err != nil || json.Unmarshal(text, &e) != nil || e.Type != "urn:hostler:problem:"+string(e.Code) || e.Instance != resp.Header.Get("X-Request-Id") {
		return nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	return decodeProblem(resp)
}

// maxProblem bounds what is read of a problem, in bytes.
const maxProblem = 1 << 20

// portConn is a connection to a port as a net.Conn.
type portConn struct {
	io.ReadWriteCloser
	address portAddress
}

// CloseWrite ends what is sent. The other direction continues.
func (c *portConn) CloseWrite() error {
	if half, ok := c.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

func (c *portConn) LocalAddr() net.Addr              { return c.address }
func (c *portConn) RemoteAddr() net.Addr             { return c.address }
func (c *portConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *portConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *portConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// portAddress is the address of a port of a claim.
type portAddress int

// Network implements net.Addr.
func (portAddress) Network() string  { return "tcp" }
func (a portAddress) String() string { return "port " + strconv.Itoa(int(a)) }

// Link is a link to a port, for a browser. Who has it can use the port.
type Link struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"` // it ends before that with its claim
}

// CreateLink makes a link to a port that can be used for some time, at most 24 hours;
// 0 means the server's default. A server without a port domain returns an *Error with
// CodeNoPortDomain.
func (c *Client) CreateLink(ctx context.Context, claim string, port int, expiresIn time.Duration) (Link, error) {
	request := struct {
		ExpiresIn string `json:"expires_in,omitempty"`
	}{}
	if expiresIn != 0 {
		request.ExpiresIn = expiresIn.String()
	}
	out, _, err := post[Link](ctx, c, c.Port(claim, port).path+"/links", request)
	return out, err
}
