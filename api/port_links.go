package api

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/auth"
)

// PortDomain is a domain whose hosts are ports of claims. The zero value is none.
type PortDomain struct {
	scheme string
	name   string // without a port, lower case
	host   string // as in links
	key    []byte
}

// ParsePortDomain reads a domain such as ports.example.com, or with scheme and port
// http://ports.localhost:8700. Links are signed with a key that is derived from the
// secret.
func ParsePortDomain(text string, secret []byte) (PortDomain, error) {
	if text == "" {
		return PortDomain{}, nil
	}
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return PortDomain{}, fmt.Errorf("read the port domain %q: it is written like ports.example.com or http://localhost:8700", text)
	}
	if net.ParseIP(u.Hostname()) != nil || strings.Contains(u.Hostname(), "*") {
		return PortDomain{}, fmt.Errorf("read the port domain %q: it is a name, without the *", text)
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "hostler: links to ports of claims", sha256.Size)
	if err != nil {
		return PortDomain{}, fmt.Errorf("derive the key of links: %w", err)
	}
	return PortDomain{scheme: u.Scheme, name: strings.ToLower(u.Hostname()), host: strings.ToLower(u.Host), key: key}, nil
}

// label returns the part of a host before the domain, if it is below the domain.
func (d PortDomain) label(host string) (string, bool) {
	if d.name == "" {
		return "", false
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.CutSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), "."+d.name)
}

// The times for which a link can be used.
const (
	defaultLinkTTL = time.Hour
	maxLinkTTL     = 24 * time.Hour
)

// linkParameter carries the token of a link, and linkCookie after the first
// request. Over TLS the cookie has a prefix: other hosts cannot set it.
const (
	linkParameter    = "hostler_link"
	linkCookie       = "hostler_link"
	secureLinkCookie = "__Host-" + linkCookie
)

func isLinkCookie(name string) bool {
	return strings.EqualFold(name, linkCookie) || strings.EqualFold(name, secureLinkCookie)
}

func (d PortDomain) cookieName() string {
	if d.scheme == "https" {
		return secureLinkCookie
	}
	return linkCookie
}

// sign returns the token of a link: when it expires, in seconds, and the proof.
func (d PortDomain) sign(claim string, port int, expires int64) string {
	mac := hmac.New(sha256.New, d.key)
	fmt.Fprintf(mac, "%s\n%d\n%d", claim, port, expires)
	return strconv.FormatInt(expires, 10) + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// verify returns when a token expires. It has no other error than that the token
// cannot be used.
func (d PortDomain) verify(token string, to portRoute, now time.Time) (expires time.Time, err error) {
	seconds, _, _ := strings.Cut(token, ".")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || !hmac.Equal([]byte(token), []byte(d.sign(to.claim, to.port, n))) || now.Unix() >= n {
		return time.Time{}, errLink
	}
	return time.Unix(n, 0), nil
}

var errLink = errors.New("the link has expired, or is not for this port")

// authenticateLink returns who sent a request with a link, or nil if it has none.
// A cookie that cannot be used counts as none: it may be of an earlier link.
func (a *API) authenticateLink(r *http.Request, to portRoute) (*portAccess, *Problem) {
	d := a.o.PortDomain
	if token, rest, ok := cutParameter(r.URL.RawQuery, linkParameter); ok {
		expires, err := d.verify(token, to, time.Now())
		if err != nil {
			return nil, newProblem(r.Context(), Forbidden, err.Error())
		}
		by := &portAccess{principal: linkHolder(to.claim), expires: expires, cookie: &http.Cookie{
			Name: d.cookieName(), Value: token, Path: "/", Expires: expires,
			HttpOnly: true, Secure: d.scheme == "https", SameSite: http.SameSiteLaxMode,
		}}
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			target := url.URL{Scheme: d.scheme, Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: rest}
			by.redirect = target.String()
		}
		return by, nil
	}
	for _, cookie := range r.CookiesNamed(d.cookieName()) {
		if expires, err := d.verify(cookie.Value, to, time.Now()); err == nil {
			return &portAccess{principal: linkHolder(to.claim), expires: expires}, nil
		}
	}
	return nil, nil
}

// cutParameter removes a parameter from a query, and leaves the rest as it is.
func cutParameter(query, name string) (value, rest string, found bool) {
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			value, found = v, true
			continue
		}
		kept = append(kept, pair)
	}
	return value, strings.Join(kept, "&"), found
}

// redirectLinked answers the first request of a link: it sets the cookie, and the
// browser forgets the token.
func redirectLinked(rec *recorder, by portAccess) {
	http.SetCookie(rec, by.cookie)
	rec.Header().Set("Location", by.redirect)
	rec.WriteHeader(http.StatusSeeOther)
}

// LinkRequest is the request for a link.
type LinkRequest struct {
	ExpiresIn Duration `json:"expires_in,omitempty" doc:"For how long the link can be used; at most 24h. Default: 1h."`
}

// Link is a link to a port.
type Link struct {
	URL       string    `json:"url" doc:"Who has it can use the port: it is a secret."`
	ExpiresAt time.Time `json:"expires_at" doc:"When it expires: at the latest with the credential that made it. It ends before that with its claim."`
}

type linkIn struct {
	ID   string `path:"id" maxLength:"56" pattern:"^[a-z0-9-]+$" doc:"The claim's id."`
	Port int    `path:"port" minimum:"1" maximum:"65535" doc:"The port in the container."`
	Body LinkRequest
}

func (a *API) createLink(ctx context.Context, in *linkIn) (*struct{ Body Link }, error) {
	ttl := in.Body.ExpiresIn.Duration
	if ttl == 0 {
		ttl = defaultLinkTTL
	}
	if ttl < time.Second || ttl > maxLinkTTL {
		return nil, fmt.Errorf("%w: expires_in is between 1s and %s", errInvalid, maxLinkTTL)
	}
	if _, err := a.o.Ports.Enter(ctx, in.ID); err != nil {
		return nil, err
	}
	d := a.o.PortDomain
	if d.name == "" {
		return nil, newProblem(ctx, NoPortDomain, "links need a domain of their own, apart from the API's origin: "+
			"start the server with --port-domain, or use hostler port-forward")
	}
	expires := time.Now().Add(ttl)
	// A token of minutes is not exchanged for a link of hours.
	if p := auth.From(ctx); p != nil && !p.Expires.IsZero() && p.Expires.Before(expires) {
		expires = p.Expires
	}
	expires = expires.Truncate(time.Second)
	target := url.URL{
		Scheme: d.scheme, Host: strconv.Itoa(in.Port) + "-" + in.ID + "." + d.host, Path: "/",
		RawQuery: linkParameter + "=" + d.sign(in.ID, in.Port, expires.Unix()),
	}
	return &struct{ Body Link }{Link{URL: target.String(), ExpiresAt: expires.UTC()}}, nil
}
