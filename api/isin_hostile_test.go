package api

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/auth"
)

// counting counts the texts that it checks.
type counting struct {
	auth.Authenticator
	checked int
}

func (c *counting) IsCredential(_ context.Context, text string) bool {
	c.checked++
	return text == "0123456789abcdef"
}

// A header of the holder of a link causes few checks, each of which may verify a
// signature: one with many words is not passed on.
func TestHeaderWithManyWords(t *testing.T) {
	c := &counting{}
	a := &API{o: Options{Auth: c}}
	require.True(t, a.isIn(t.Context(), strings.Repeat("eyJhbGciOiJSUzI1NiJ9.e30.AA ", 2000)))
	require.LessOrEqual(t, c.checked, 16)
	digest := `Digest username="ann", realm="r", nonce="0123456789abcdef0123", uri="/", qop=auth, nc=00000001, cnonce="0a4f113b", response="6629fae49393a05397450978507c4ef1"`
	require.False(t, a.isIn(t.Context(), digest))
	require.False(t, a.isIn(t.Context(), "Basic YWxhZGRpbjpvcGVuc2VzYW1l"))
	require.True(t, a.isIn(t.Context(), strings.Repeat("x ", 1000)+"0123456789abcdef"))
	require.False(t, (&API{}).isIn(t.Context(), "Bearer 0123456789abcdef"))
}
