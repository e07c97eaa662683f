package api

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// originHeaders are the headers of a response that act on more than the response:
// on its whole origin, or on the browser. A program's response has the API's origin
// unless the port has a host of its own.
var originHeaders = []string{
	"Set-Cookie", "Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "Public-Key-Pins",
	"Expect-Ct", "Alt-Svc", "Nel", "Report-To", "Reporting-Endpoints", "Accept-Ch", "Critical-Ch", "Origin-Trial",
	"Set-Login", "Refresh", "Www-Authenticate", "Sec-Session-Registration", "Secure-Session-Registration", "Use-As-Dictionary",
	"Content-Security-Policy-Report-Only",
}

// siteHeaders are those that act on other hosts of the port domain, and so on other
// tenants' pages.
var siteHeaders = []string{"Clear-Site-Data", "Alt-Svc", "Nel", "Report-To"}

// ownHeaders are the headers that the API sets in the response itself.
var ownHeaders = []string{"X-Request-Id", "X-Content-Type-Options", "Cache-Control", "Expires", "Pragma"}

// sandbox gives a page of a program an origin of its own, in which no script runs,
// no form is sent, and no other page shows it.
const sandbox = "sandbox; frame-ancestors 'none'"

// redirectHeader has the target of a redirect that is not passed on.
const redirectHeader = "Hostler-Location"

// restrict removes from a response what acts on the API's origin.
func (to portRoute) restrict(h http.Header) {
	removeOrigin(h)
	h.Add("Content-Security-Policy", sandbox) // a browser enforces it with the program's own
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
}

// removeOrigin removes what acts on the origin.
func removeOrigin(h http.Header) {
	for _, name := range originHeaders {
		h.Del(name)
	}
	for _, name := range ownHeaders {
		h.Del(name)
	}
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			delete(h, name)
		}
	}
}

// restrictTrailer removes from the fields after a response what is removed before it:
// proxies may make headers of them.
func (to portRoute) restrictTrailer(h http.Header) {
	if to.ownHost {
		restrictSite(h)
		return
	}
	removeOrigin(h)
}

// restrictedBody is the body of a response. The fields after it are known when it is
// closed.
type restrictedBody struct {
	io.ReadCloser
	res      *http.Response
	restrict func(http.Header)
}

// Close implements io.Closer.
func (b *restrictedBody) Close() error {
	err := b.ReadCloser.Close()
	b.restrict(b.res.Trailer)
	return err
}

// restrictSite removes from a response of a port with a host of its own what acts
// on other hosts of the domain.
func restrictSite(h http.Header) {
	for _, name := range siteHeaders {
		h.Del(name)
	}
	cookies := h.Values("Set-Cookie")
	h.Del("Set-Cookie")
	for _, cookie := range cookies {
		name, _, _ := strings.Cut(cookie, "=")
		if !isLinkCookie(strings.TrimSpace(name)) {
			h.Add("Set-Cookie", withoutDomain(cookie))
		}
	}
}

// withoutDomain removes a cookie's domain, so that it belongs to the host only.
func withoutDomain(cookie string) string {
	parts := strings.Split(cookie, ";")
	kept := parts[:1]
	for _, part := range parts[1:] {
		name, _, _ := strings.Cut(part, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "domain") {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, ";")
}

// localize keeps a redirect within the port. A client with a key repeats it with
// every request that it is redirected to, so a redirect to elsewhere would give the
// key away, and one to the API would have the client call it.
func (to portRoute) localize(r *http.Request, h http.Header) {
	given := h.Get("Location")
	if given == "" {
		return
	}
	h.Del("Location")
	local, ok := to.localURL(r, given)
	if !ok {
		h.Set(redirectHeader, given)
		return
	}
	h.Set("Location", local)
}

// localURL returns a Location of a program as the client sees it, if it is below
// the program's root.
func (to portRoute) localURL(r *http.Request, given string) (string, bool) {
	base, err := url.Parse(to.path)
	if err != nil || strings.ContainsRune(given, '\\') { // browsers read it as a slash
		return "", false
	}
	target, err := base.Parse(given)
	if err != nil || target.User != nil || target.Opaque != "" {
		return "", false
	}
	if target.Host != "" && !to.isOwn(r, target) || target.Host == "" && target.Scheme != "" {
		return "", false
	}
	for segment := range strings.SplitSeq(target.Path, "/") {
		if segment == "." || segment == ".." { // it was escaped: clients resolve it, too
			return "", false
		}
	}
	local := url.URL{Path: to.prefix() + target.Path, RawQuery: target.RawQuery, Fragment: target.Fragment, RawFragment: target.RawFragment}
	if target.RawPath != "" {
		local.RawPath = to.prefix() + target.RawPath
	}
	text := local.String()
	return text, !strings.HasPrefix(text, "//") // a host would follow
}

// isOwn reports whether an absolute URL is that of the program, as it sees itself.
func (to portRoute) isOwn(r *http.Request, target *url.URL) bool {
	if target.Scheme != "http" && target.Scheme != "https" {
		return false
	}
	return strings.EqualFold(target.Host, to.hostOf(r)) || strings.EqualFold(target.Host, "127.0.0.1:"+strconv.Itoa(to.port))
}

// hostOf returns the Host that the program gets.
func (to portRoute) hostOf(r *http.Request) string {
	if to.ownHost {
		return r.Host
	}
	return "localhost:" + strconv.Itoa(to.port)
}

// withoutCredentials removes from a request what is for Hostler only.
func (to portRoute) withoutCredentials(h http.Header, by portAccess, isCredential func(header string) bool) {
	if !to.ownHost {
		// Cookies there are the API's, or those of a proxy before it.
		h.Del("Cookie")
		h.Del("Authorization")
		h.Del("X-Api-Key")
		return
	}
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		// A client may send its key with a link, too.
		values := h.Values(name)
		if by.byKey || len(values) > 1 || slices.ContainsFunc(values, isCredential) {
			h.Del(name)
		}
	}
	cookies := h.Values("Cookie")
	h.Del("Cookie")
	for _, line := range cookies {
		var kept []string
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(pair, "=")
			if !isLinkCookie(strings.TrimSpace(name)) {
				kept = append(kept, strings.TrimSpace(pair))
			}
		}
		if len(kept) > 0 {
			h.Add("Cookie", strings.Join(kept, "; "))
		}
	}
}
