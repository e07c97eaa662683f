// Package request performs actions of the kinds http and webhook: it sends an
// HTTP request from the server and judges the response.
//
// It promises that a request reaches an address only if the server permits it,
// whatever its host resolves to; that a secret goes to the host that its limit
// permits and nowhere else; that everything it reads is bounded; and that its
// results have neither a secret nor a URL.
//
// The policy of a hook, its records and the names of variables belong to others.
package request

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
)

// Options configure an Executor. The zero value is ready for use.
type Options struct {
	// Allow has host names, *.DOMAIN, addresses and CIDRs that requests may be sent
	// to, in addition to global addresses and those of private networks. Deny has
	// those that they may not be sent to, also if Allow has them.
	Allow, Deny []string
	// Own has addresses and names of this server that are not on its interfaces,
	// such as that of a load balancer. Requests reach them only if Allow has them.
	Own []string
	// Secrets reads secrets. nil: those of the environment.
	Secrets *Secrets
	// Redactor learns every secret that is read. nil: one of its own.
	Redactor *Redactor
	// Google supplies tokens of Google Cloud. nil: no request can have one.
	Google Google
	// GoogleDefault permits the server's own credentials for requests to the hosts
	// of GoogleHosts; empty: *.googleapis.com.
	GoogleDefault bool
	GoogleHosts   []string
	// RootCAs verifies servers. nil: the system's.
	RootCAs *x509.CertPool

	resolver *net.Resolver // of tests
}

// Executor performs actions of the kinds http and webhook.
type Executor struct {
	addresses *addresses
	secrets   *Secrets
	redactor  *Redactor
	tokens    *tokens
	// transport sends requests. listed sends those that have secrets in plain text,
	// over connections to addresses that the server lists.
	transport, listed sender
}

var _ runner.Executor = (*Executor)(nil)

// New returns an Executor. It fails if a host or a network is invalid.
func New(o Options) (*Executor, error) {
	if o.Redactor == nil {
		o.Redactor = new(Redactor)
	}
	if o.Secrets == nil {
		o.Secrets = NewSecrets("", o.Redactor)
	}
	if o.resolver == nil {
		o.resolver = net.DefaultResolver
	}
	if len(o.GoogleHosts) == 0 {
		o.GoogleHosts = []string{"*.googleapis.com"}
	}
	x := &Executor{
		addresses: &addresses{resolver: o.resolver, interfaces: net.InterfaceAddrs},
		secrets:   o.Secrets, redactor: o.Redactor,
		tokens: &tokens{google: o.Google, hasDefault: o.GoogleDefault, redactor: o.Redactor},
	}
	for _, list := range []struct {
		name string
		text []string
		to   *rules
	}{
		{"allowed", o.Allow, &x.addresses.allow}, {"denied", o.Deny, &x.addresses.deny}, {"own", o.Own, &x.addresses.own},
		{"Google", o.GoogleHosts, &x.tokens.hosts},
	} {
		var err error
		if *list.to, err = parseRules(list.text); err != nil {
			return nil, fmt.Errorf("%s hosts: %w", list.name, err)
		}
	}
	x.transport = newSender(x.addresses.transport(o.RootCAs, false))
	x.listed = newSender(x.addresses.transport(o.RootCAs, true))
	x.tokens.transport = confidential{x}
	return x, nil
}

// Redactor returns the redactor that knows the secrets that were read.
func (x *Executor) Redactor() *Redactor { return x.redactor }

// Close closes idle connections.
func (x *Executor) Close() {
	x.transport.again.CloseIdleConnections()
	x.listed.again.CloseIdleConnections()
}

// errTimeout is the cause of the end of an attempt's context.
var errTimeout = errors.New("timeout")

// Execute sends the request of an attempt and returns what its response means.
func (x *Executor) Execute(ctx context.Context, a runner.Attempt) runner.Result {
	attempt, cancel := context.WithTimeoutCause(ctx, a.Timeout, errTimeout)
	defer cancel()
	res, err := x.execute(attempt, a)
	res.Gone = true // the connection is closed, or the response was read
	if err == nil {
		return res
	}
	switch {
	case errors.Is(err, errInvalid), errors.Is(err, ErrRefused):
		res.State = hooks.StartFailed
	case ctx.Err() != nil:
		res.State = hooks.Cancelled
	case attempt.Err() != nil:
		res.State = hooks.TimedOut
		if !errors.Is(err, errAuthenticate) {
			err = fmt.Errorf("no complete response within %s", a.Timeout)
		}
	default:
		res.State = hooks.Failed
	}
	res.Err = x.cleanError(err)
	return res
}

// maxErrorBytes bounds the text of an error: a receiver may determine it.
const maxErrorBytes = 1 << 10

// cleanError returns an error with the text of err, without secrets and URLs.
func (x *Executor) cleanError(err error) error {
	return errors.New(x.clean(body{text: withoutURL(err).Error()}, maxErrorBytes))
}

// errInvalid indicates a request that could not be built from its action.
var errInvalid = errors.New("invalid request")

func (x *Executor) execute(ctx context.Context, a runner.Attempt) (runner.Result, error) {
	m, err := x.build(a)
	if err != nil {
		return runner.Result{}, err
	}
	if err := x.authenticate(ctx, m); err != nil {
		return runner.Result{}, err
	}
	var transport http.RoundTripper = x.transport
	if m.hasSecrets {
		transport = confidential{x}
	}
	// No http.Client: it follows redirects, where another host would get the
	// secrets and the body, and its errors have the URL.
	resp, err := transport.RoundTrip(m.httpRequest(ctx))
	if err != nil {
		return runner.Result{}, err
	}
	defer resp.Body.Close()
	res, err := x.judge(m, resp)
	res.Warnings = append(m.warnings, res.Warnings...)
	return res, err
}

// confidential sends requests that have secrets.
type confidential struct{ x *Executor }

// RoundTrip implements http.RoundTripper.
func (c confidential) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "http" {
		return c.x.listed.RoundTrip(r)
	}
	return c.x.transport.RoundTrip(r)
}

// withoutURL removes the URL from an error of net/http and net/url.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// WaitResult implements runner.Executor. The response went to the server that
// sent the request.
func (x *Executor) WaitResult(context.Context, runner.Attempt) runner.Result {
	return runner.Result{State: hooks.Unknown, Err: errors.New("the response is lost"), Gone: true}
}

// Ending implements runner.Executor.
func (x *Executor) Ending(r hooks.Run) runner.Ending {
	return runner.Ending{MayRetry: mayRetry(r), MayContinue: true}
}

// mayRetry reports whether another attempt may succeed. A receiver that answered
// with any other status would answer the same.
func mayRetry(r hooks.Run) bool {
	switch {
	case r.State == hooks.TimedOut:
		return true
	case r.State != hooks.Failed:
		return false
	}
	switch r.Status {
	case 0, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return r.Status >= http.StatusInternalServerError
}

// MaxRetryAfter is the longest time that a receiver can delay the next attempt.
const MaxRetryAfter = 10 * time.Minute
