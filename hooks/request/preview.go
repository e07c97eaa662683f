package request

import (
	"net/http"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
)

// Preview is a request that was not sent, without its secrets.
type Preview struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body,omitempty"`
	// Warnings are those of the attempt.
	Warnings []string `json:"warnings,omitempty"`
}

// Preview returns the request that Execute would send for an attempt. It sends
// nothing, also not for a token, and resolves no name. It fails if Execute could
// not build the request, for example because a secret is missing.
func (x *Executor) Preview(a runner.Attempt) (Preview, error) {
	m, err := x.build(a)
	if err != nil {
		return Preview{}, x.cleanError(err)
	}
	if auth := m.action.Auth; auth.Type == hooks.AuthAPIKey {
		m.header.Set(auth.Header, redacted)
	} else if auth.Type != hooks.AuthNone {
		m.header.Set("Authorization", redacted)
	}
	p := Preview{
		Method: m.method, URL: x.redactor.Redact(m.url.String()), Headers: map[string]string{},
		Body: x.redactor.Redact(string(m.body)), Warnings: m.warnings,
	}
	for name, values := range m.header {
		p.Headers[http.CanonicalHeaderKey(name)] = x.redactor.Redact(values[0])
	}
	for _, name := range []string{"Authorization", "Cookie", "Webhook-Signature"} {
		if p.Headers[name] != "" {
			p.Headers[name] = redacted
		}
	}
	return p, nil
}

// AddSecrets adds the secrets that a workload declares to the redactor, except
// those that cannot be read.
func (x *Executor) AddSecrets(declared map[string]hooks.Secret) {
	for _, from := range declared {
		_, _ = x.secrets.Read(from) // who uses one that is missing gets the error
	}
}
