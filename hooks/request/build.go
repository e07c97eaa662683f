package request

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/hooks/variables"
)

// message is the request of one attempt.
type message struct {
	action     hooks.Request
	method     string
	url        *url.URL
	header     http.Header
	body       []byte
	credential Secret // of auth
	hasSecrets bool
	sent       []string // secrets that may be in the request
	warnings   []string
}

// build returns the request of an attempt, not yet authenticated. Its errors
// match errInvalid.
func (x *Executor) build(a runner.Attempt) (*message, error) {
	action, ok := a.Action.(hooks.Request)
	if !ok {
		return nil, fmt.Errorf("%w: it is an action of kind %s", errInvalid, a.Action.Kind())
	}
	m := &message{action: action, header: http.Header{}}
	secrets, err := x.readSecrets(action, a.Secrets)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	m.hasSecrets = len(secrets) > 0
	m.credential = secrets[action.Auth.Secret]
	var uses variables.Uses
	lookup := uses.Watch(func(name string) (variables.Value, bool) {
		if s, ok := secrets[name]; ok {
			return variables.Value{Text: s.Value, Class: variables.Secret}, true
		}
		if a.Lookup == nil {
			return variables.Value{}, false
		}
		return a.Lookup(name)
	})
	if err := m.render(a, lookup); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	m.sent = slices.Clone(a.Sensitive)
	for _, secret := range secrets {
		m.sent = append(m.sent, secret.Value)
	}
	if user := m.url.User; user != nil && m.hasSecrets {
		x.redactor.Add(userParts(user)...)
		m.sent = append(m.sent, userParts(user)...)
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if !secrets[name].Permits(a.Workload, m.url.Hostname()) {
			return nil, fmt.Errorf("%w: the server does not permit the secret %s for workload %s and host %s",
				errInvalid, name, a.Workload, m.url.Hostname())
		}
	}
	for _, name := range uses.Empty {
		m.warnings = append(m.warnings, fmt.Sprintf("the variable %s is empty", name))
	}
	if action.Sign != "" {
		if err := m.sign(secrets[action.Sign].Value, a.Run, time.Now()); err != nil {
			return nil, fmt.Errorf("%w: sign with the secret %s: %w", errInvalid, action.Sign, err)
		}
	}
	return m, nil
}

// readSecrets returns the secrets that an action uses, by name.
func (x *Executor) readSecrets(r hooks.Request, declared map[string]hooks.Secret) (map[string]Secret, error) {
	var names []string
	for _, t := range templatesOf(r) {
		names = append(names, t.Names()...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, ok := declared[name]; return !ok })
	for _, name := range []string{r.Auth.Secret, r.Sign} {
		if name != "" {
			names = append(names, name)
		}
	}
	secrets := map[string]Secret{}
	for _, name := range names {
		from, ok := declared[name]
		if !ok {
			return nil, fmt.Errorf("the secret %s is not declared", name)
		}
		var err error
		if secrets[name], err = x.secrets.Read(from); err != nil {
			return nil, fmt.Errorf("read the secret %s: %w", name, err)
		}
	}
	return secrets, nil
}

func templatesOf(r hooks.Request) []variables.Template {
	list := append([]variables.Template{r.URL}, slices.Collect(maps.Values(r.Headers))...)
	if r.Body != nil {
		list = append(list, *r.Body)
	}
	return list
}

// render sets the method, the URL, the headers and the body.
func (m *message) render(a runner.Attempt, lookup variables.Lookup) error {
	var err error
	if m.url, err = m.action.URL.URL(lookup); err != nil {
		return fmt.Errorf("url: %w", withoutURL(err))
	}
	switch {
	case m.url.Scheme != "http" && m.url.Scheme != "https":
		return errors.New("url: the scheme is neither http nor https")
	case m.url.Hostname() == "":
		return errors.New("url: there is no host")
	case len(m.url.String()) > maxURLBytes:
		return fmt.Errorf("url: it is larger than %d bytes", maxURLBytes)
	}
	if err := m.renderBody(a, lookup); err != nil {
		return err
	}
	m.method = m.action.Method
	if m.method == "" {
		m.method = http.MethodGet
		if m.body != nil {
			m.method = http.MethodPost
		}
	}
	if m.method == http.MethodConnect {
		return errors.New("method: CONNECT is not supported")
	}
	return m.renderHeader(a, lookup)
}

func (m *message) renderBody(a runner.Attempt, lookup variables.Lookup) error {
	switch {
	case m.action.Body != nil:
		text, err := m.action.Body.Body(lookup)
		if err != nil {
			return fmt.Errorf("body: %w", err)
		}
		m.body = []byte(text)
	case m.action.Webhook:
		m.body = a.Envelope
	}
	if len(m.body) > maxBodyBytes {
		return fmt.Errorf("body: it is larger than %d bytes", maxBodyBytes)
	}
	return nil
}

// userAgent is the User-Agent of requests.
const userAgent = "hostler"

func (m *message) renderHeader(a runner.Attempt, lookup variables.Lookup) error {
	m.header.Set("User-Agent", userAgent)
	if m.action.Webhook {
		m.header.Set("Content-Type", "application/json")
	}
	if user := m.url.User; user != nil {
		password, _ := user.Password()
		m.header.Set("Authorization", basicAuth(user.Username(), password))
	}
	for name, template := range m.action.Headers {
		if !hooks.IsHeaderAllowed(name) {
			return fmt.Errorf("header %q: it is set by the server", name)
		}
		value, err := template.Header(lookup)
		if err == nil && len(value) > maxHeaderValueBytes {
			err = fmt.Errorf("it is larger than %d bytes", maxHeaderValueBytes)
		}
		if err != nil {
			return fmt.Errorf("header %q: %w", name, err)
		}
		m.header.Set(name, value)
	}
	m.header.Set(hooks.HeaderID, strings.Join([]string{a.Container, url.PathEscape(a.Hook), cmp.Or(string(a.Point), a.Event), a.Run}, ":"))
	// Not in the canonical form: net/http would send a request with that header
	// again, see sender.
	m.header[strings.ToLower(hooks.HeaderKey)] = []string{a.Run}
	return nil
}

// httpRequest returns the message as net/http sends it.
func (m *message) httpRequest(ctx context.Context) *http.Request {
	u := *m.url
	u.User = nil // it is in the header
	r := (&http.Request{
		Method: m.method, URL: &u, Host: u.Host, Header: m.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if len(m.body) > 0 {
		r.ContentLength = int64(len(m.body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(m.body)), nil }
		r.Body, _ = r.GetBody()
	}
	return r
}
