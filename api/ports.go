package api

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

// Ports connects to what listens in the containers of claims. It is an
// access.Service.
type Ports interface {
	// Enter permits a use of a claim, and records that it is in use.
	Enter(ctx context.Context, claimID string) (access.Grant, error)
	// Dial opens a connection, which is a use of the claim until it is closed.
	Dial(ctx context.Context, claimID string, port int) (net.Conn, error)
	// BeginRequest permits a request, and DialForRequests opens a connection for
	// requests.
	BeginRequest(ctx context.Context, claimID string, use access.PortUse) (*access.PortRequest, error)
	DialForRequests(ctx context.Context, claimID string, port int) (net.Conn, error)
}

// portRoute is where a request to a port of a claim's container goes.
type portRoute struct {
	claim string
	port  int
	// path is the escaped path as the program sees it. It is empty for a
	// connection.
	path string
	// ownHost means that the port has a host of its own. It is not the origin of the
	// API, and belongs to this claim forever.
	ownHost bool
}

// prefix returns the path of the API below which the program's paths are.
func (to portRoute) prefix() string {
	if to.ownHost {
		return ""
	}
	return "/v1/claims/" + to.claim + "/ports/" + strconv.Itoa(to.port)
}

// The forms of addresses. An id that is written otherwise is that of no claim.
var (
	portPath = regexp.MustCompile(`^/v1/claims/([A-Za-z0-9_-]{1,128})/ports/([1-9][0-9]{0,4})(/.*)?$`)
	portHost = regexp.MustCompile(`^([1-9][0-9]{0,4})-([a-z0-9-]{1,56})$`)
)

// linksPath is where links are made. A program's own path /links takes no POST here.
const linksPath = "/links"

// portRouteOf returns where a request goes, and whether it is one to a port or to
// the domain of ports.
func (a *API) portRouteOf(r *http.Request) (to portRoute, isPort bool) {
	if a.o.Ports == nil {
		return portRoute{}, false
	}
	if label, ok := a.o.PortDomain.label(r.Host); ok {
		// The form of an address that proxies get may have no path.
		to := portRoute{path: cmp.Or(r.URL.EscapedPath(), "/"), ownHost: true}
		if m := portHost.FindStringSubmatch(label); m != nil {
			to.port, to.claim = portNumber(m[1]), m[2]
		}
		return to, true
	}
	m := portPath.FindStringSubmatch(r.URL.EscapedPath())
	if m == nil || m[3] == linksPath && r.Method == http.MethodPost {
		return portRoute{}, false
	}
	return portRoute{claim: m[1], port: portNumber(m[2]), path: m[3]}, true
}

// portNumber returns the port, or 0 for a number that is none.
func portNumber(text string) int {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

// serveAtPort serves a request to a port. It returns false if the request is none.
func (a *API) serveAtPort(rec *recorder, r *http.Request) (principal string, served bool) {
	to, isPort := a.portRouteOf(r)
	if !isPort {
		return "", false
	}
	rec.path = (portRoute{claim: to.claim, port: to.port}).prefix()
	if to.path != "" {
		rec.path += "/-" // the path is the tenant's
	}
	by, refused := a.authenticateAtPort(rec, r, to)
	if refused == nil {
		refused = checkAtPort(r, to)
	}
	r, release := a.asPrincipal(r, by.principal)
	defer release()
	defer rec.cutOff(r.Context())()
	if refused == nil {
		refused = a.limitRequests(r.Context(), by.principal, to.claim)
	}
	if refused == nil {
		refused = a.authorizePort(r, to.claim)
	}
	switch {
	case refused != nil:
		rec.refuse(refused)
	case by.redirect != "":
		redirectLinked(rec, by)
	case to.path == "":
		a.servePortConn(rec, r, to)
	default:
		a.proxy(rec, r, to, by)
	}
	return by.name(), true
}

// checkAtPort refuses what no program in a container should get.
func checkAtPort(r *http.Request, to portRoute) *Problem {
	ctx := r.Context()
	switch {
	case to.port == 0:
		return newProblem(ctx, NotFound, "no such port; an address is written PORT-CLAIM.DOMAIN, or /v1/claims/CLAIM/ports/PORT/")
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		return newProblem(ctx, MethodNotAllowed, r.Method+" is not passed on")
	case to.path == "" && (r.Method != http.MethodPost || !hasUpgrade(r, tcpProtocol)):
		return newProblem(ctx, NotFound, "the address of a program's root ends with a slash; a connection is opened by POST with Upgrade: "+tcpProtocol)
	case !to.ownHost && r.Header.Get("Service-Worker") != "":
		// Its scope would be a part of the API's origin.
		return newProblem(ctx, Forbidden, "service workers need a port domain")
	case r.Header.Get("Upgrade") != "" && isOtherOrigin(r):
		// Browsers apply no other rule to a WebSocket.
		return newProblem(ctx, Forbidden, "pages of another origin may not open connections")
	}
	return nil
}

// isOtherOrigin reports whether a browser sends a request for a page of another
// origin. Its scheme is not compared: a proxy may have ended TLS.
func isOtherOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	_, host, ok := strings.Cut(origin, "://")
	return !ok || !strings.EqualFold(host, r.Host)
}

// hasUpgrade reports whether a request asks for a protocol.
func hasUpgrade(r *http.Request, protocol string) bool {
	for _, value := range r.Header.Values("Connection") {
		for token := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return strings.EqualFold(r.Header.Get("Upgrade"), protocol)
			}
		}
	}
	return false
}

// portAccess is who sent a request to a port.
type portAccess struct {
	principal *auth.Principal
	byKey     bool
	redirect  string // the first request of a link goes there
	cookie    *http.Cookie
	expires   time.Time // of a link: what it has begun ends then
}

// name returns the name of who sent the request, for the log.
func (by portAccess) name() string { return loggedName(by.principal) }

// authenticateAtPort returns who sent the request: the holder of a credential, or on
// a host of its own also that of a link.
func (a *API) authenticateAtPort(rec *recorder, r *http.Request, to portRoute) (portAccess, *Problem) {
	if !to.ownHost {
		principal, refused := a.authenticate(r)
		return portAccess{principal: principal, byKey: true}, refused
	}
	rec.Header().Set("Referrer-Policy", "no-referrer") // of problems: the URL may have a link
	if err := a.crossOrigin.Check(r); err != nil {
		return portAccess{}, newProblem(r.Context(), Forbidden, "cross-origin requests that change state are not allowed")
	}
	if by, refused := a.authenticateLink(r, to); by != nil || refused != nil {
		if by == nil {
			by = new(portAccess)
		}
		return *by, refused
	}
	if a.o.Auth == nil || a.o.Auth.IsOpen() {
		return portAccess{principal: auth.WithoutCredentials()}, nil // the host names a claim: its id is not guessed
	}
	credential := credentialOf(r)
	if credential.Bearer == "" && credential.Certificate == nil && credential.UID == nil {
		return portAccess{}, newProblem(r.Context(), Unauthorized, "open the port with a link, or send an API key")
	}
	principal, refused := a.authenticateCredential(r.Context(), credential)
	return portAccess{principal: principal, byKey: true}, refused
}

// linkActor is the actor of who has a link.
const linkActor = "link"

// linkHolder is the principal of who has a link to a port of a claim.
func linkHolder(claim string) *auth.Principal {
	return &auth.Principal{Actor: linkActor, Name: "link", Grants: []auth.Grant{{
		Role: auth.Tenant, Tenants: []activity.Pattern{activity.Anything}, Claim: claim,
	}}}
}
