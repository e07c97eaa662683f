package workload

import (
	"fmt"
	"strings"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
)

// checkRequest checks the request of a hook: that its templates are valid where
// they stand, its paths, and its secrets.
func (d *decoder) checkRequest(h placedHook, scope variableScope) {
	var url, sign string
	var headers headersFile
	var text *string
	switch {
	case h.HTTP != nil:
		url, headers, text = h.HTTP.URL, h.HTTP.Headers, h.HTTP.Body
		d.checkAuth(h, scope)
	case h.Webhook != nil:
		url, headers, text, sign = h.Webhook.URL, h.Webhook.Headers, h.Webhook.Body, h.Webhook.Sign
	default:
		return
	}
	if at := h.actionAt + ".url"; url != "" {
		if hasPassword(url) {
			d.addErrorAt(at, "has a user or a password", "write auth, or a header with a secret")
		}
		d.checkTemplate(at, url, scope.of(d, h, at, "the request fails"), variables.Template.CheckURL)
	}
	for _, name := range sortedKeys(headers) {
		at := keyOf(h.actionAt+".headers", name)
		d.checkTemplate(at, headers[name], scope.of(d, h, at, "it is empty"), variables.Template.CheckHeader)
	}
	if text != nil {
		at := h.actionAt + ".body"
		d.checkTemplate(at, *text, scope.of(d, h, at, "it is empty"), variables.Template.CheckBody)
	}
	for _, name := range sortedKeys(h.captures()) {
		_, err := variables.ParsePath(h.captures()[name])
		d.addTemplateError(keyOf(h.actionAt+".capture", name), err, scope)
	}
	if sign != "" {
		d.checkSecret(h.actionAt+".sign", sign, scope)
	}
}

// hasPassword reports whether a URL has a user, outside its variables.
func hasPassword(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return strings.Contains(rest, "@")
}

// of returns the scope of a template of h. In a list with on and action (Scion's
// form), a name that nothing supplies is a note.
func (s variableScope) of(d *decoder, h placedHook, at, effect string) variableScope {
	if h.form != listedForm {
		return s
	}
	noted := map[string]bool{}
	s.unknown = func(name string) {
		if !noted[name] {
			noted[name] = true
			d.addNoteAt(at, "names "+truncate(name)+", which nothing supplies: "+effect, s.hint(name))
		}
	}
	return s
}

// checkTemplate checks a template where it stands.
func (d *decoder) checkTemplate(at, text string, scope variableScope, check func(variables.Template, func(string) (variables.Class, bool)) error) {
	if d.invalid[at] {
		return
	}
	t, err := variables.ParseTemplate(text)
	if err == nil {
		err = check(t, scope.classOf)
	}
	d.addTemplateError(at, err, scope)
}

// checkSecret checks that a secret is declared.
func (d *decoder) checkSecret(at, name string, scope variableScope) {
	if _, ok := scope.secrets[name]; ok || d.invalid[at] {
		return
	}
	hint := "declare it under secrets"
	if near := suggest(name, sortedKeys(scope.secrets)); near != "" {
		hint = "did you mean " + near + "?"
	}
	d.addErrorAt(at, fmt.Sprintf("is %q, which is not a secret", truncate(name)), hint)
}

// authKeys has the keys that each type of auth needs, next to type.
var authKeys = map[hooks.AuthType][]string{
	hooks.AuthBearer:            {"secret"},
	hooks.AuthAPIKey:            {"secret", "header"},
	hooks.AuthGCPServiceAccount: {"secret"},
}

// checkAuth checks that auth has the keys of its type, and no others.
func (d *decoder) checkAuth(h placedHook, scope variableScope) {
	a := h.HTTP.Auth
	if a == nil {
		return
	}
	at := h.actionAt + ".auth"
	way, ok := authTypes[a.Type]
	if !ok || d.invalid[at] {
		return // reported
	}
	needs := strings.Join(authKeys[way], " ")
	if h.form == listedForm && needs != "" && a.Secret == "" {
		d.addNoteAt(at, "has no secret: the request is sent with its headers as written", "write {type: "+a.Type+", secret: NAME}")
		h.HTTP.Auth = nil
		return
	}
	for key, value := range map[string]string{"secret": a.Secret, "header": a.Header} {
		switch needed := strings.Contains(needs, key); {
		case needed && value == "" && !d.invalid[at+"."+key]:
			d.addErrorAt(at+"."+key, "is missing", fmt.Sprintf("%s needs it", a.Type))
		case !needed && value != "":
			d.addErrorAt(at+"."+key, fmt.Sprintf("is not used by %s", a.Type), "remove it")
		}
	}
	if a.Secret != "" && strings.Contains(needs, "secret") {
		d.checkSecret(at+".secret", a.Secret, scope)
	}
	if a.Header != "" && !d.invalid[at+".header"] && !hooks.IsHeaderAllowed(a.Header) {
		d.addErrorAt(at+".header", "is set by Hostler", "name another header")
	}
	for name := range h.HTTP.Headers {
		if way != hooks.AuthNone && (strings.EqualFold(name, "Authorization") || strings.EqualFold(name, a.Header)) {
			d.addErrorAt(keyOf(h.actionAt+".headers", name), "is set by auth", "keep one of them")
		}
	}
	if way == hooks.AuthNone || !strings.HasPrefix(strings.ToLower(h.HTTP.URL), "http:") {
		return
	}
	if way == hooks.AuthGCP || way == hooks.AuthGCPServiceAccount {
		d.addErrorAt(h.actionAt+".url", "is not https, and auth is "+a.Type, "write https://")
		return
	}
	d.addNoteAt(h.actionAt+".url", "is not https, and the request has a secret", "the operator must allow its address: write https:// if you can")
}
