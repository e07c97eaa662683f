package request

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/hostler/hostler/hooks"
)

// errAuthenticate indicates that there is no token for a request, which was not
// sent.
var errAuthenticate = errors.New("authenticate")

// authenticate adds the credentials of a message's action.
func (x *Executor) authenticate(ctx context.Context, m *message) error {
	auth := m.action.Auth
	header, value := "Authorization", "Bearer "
	switch auth.Type {
	case hooks.AuthNone:
		return nil
	case hooks.AuthBearer:
		value += m.credential.Value
	case hooks.AuthAPIKey:
		if !hooks.IsHeaderAllowed(auth.Header) {
			return fmt.Errorf("%w: auth: the header %q cannot have a key", errInvalid, auth.Header)
		}
		header, value = auth.Header, m.credential.Value
	case hooks.AuthGCP, hooks.AuthGCPServiceAccount:
		token, err := x.tokens.get(ctx, m)
		if err != nil {
			return fmt.Errorf("%w as %s: %w", errAuthenticate, auth.Type, err)
		}
		m.hasSecrets = true
		m.sent = append(m.sent, token)
		value += token
	default:
		return fmt.Errorf("%w: auth: unknown type %q", errInvalid, auth.Type)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%w: auth: %w", errInvalid, errors.New("the credential has a line break or another control character"))
	}
	m.header.Set(header, value)
	return nil
}

func basicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
