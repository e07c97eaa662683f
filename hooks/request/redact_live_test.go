package request

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wrapped returns a text in lines of a width.
func wrapped(text string, width int) string {
	var b strings.Builder
	for len(text) > width {
		b.WriteString(text[:width] + "\n")
		text = text[width:]
	}
	return b.String() + text + "\n"
}

// No line of a secret is shown that has not been printed to its end, in any form that
// has several lines, and nothing is withheld once it has been.
func TestRedactLive(t *testing.T) {
	t.Parallel()
	key := "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSj==\n-----END KEY-----"
	token := "tokentokenTOKENTOKENtokentokenTOKENTOKEN0123456789"
	codes := "1111-aaaa\n2222-bbbb\n3333-cccc"
	base := base64.StdEncoding.EncodeToString
	for name, c := range map[string]struct {
		secret, printed string
		parts           []string
	}{
		"lines":            {key, key + "\n", []string{"MIIEv", "BKcw"}},
		"a long line":      {"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSj\ncc==", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSj\ncc==\n", []string{"BKcw", "cc"}},
		"short lines":      {codes, codes + "\n", []string{"aaaa", "bbbb", "cccc"}},
		"base64":           {token, wrapped(base([]byte(token)), 40), []string{base([]byte(token))[:20]}},
		"base64 of lines":  {key, wrapped(base([]byte(key)), 76), []string{base([]byte(key))[:20], base([]byte(key))[80:90]}},
		"base64 within":    {token, wrapped(base([]byte("x "+token+" y")), 64), []string{base([]byte("x " + token))[10:30]}},
		"base64, of a URL": {token, wrapped(base64.URLEncoding.EncodeToString([]byte(token)), 40), []string{base([]byte(token))[:20]}},
	} {
		t.Run(name, func(t *testing.T) {
			r := new(Redactor)
			r.Add(c.secret)
			text := "before\n" + c.printed + strings.Repeat("after\n", 9)
			last := ""
			for end := range len(text) + 1 {
				whole := text[:strings.LastIndex(text[:end], "\n")+1]
				shown := r.RedactLive(whole)
				shown = shown[:strings.LastIndex(shown, "\n")+1]
				for _, part := range c.parts {
					require.NotContains(t, shown, part, whole)
				}
				require.True(t, strings.HasPrefix(shown, last), "%q after %q", shown, last)
				last = shown
			}
			require.True(t, strings.HasPrefix(r.Redact(text), last))
			require.Contains(t, last, redacted)
			require.Contains(t, last, "after\n")
		})
	}
	r := new(Redactor)
	r.Add(key)
	require.Equal(t, redacted+"\n", r.RedactLive("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n"), "a line by itself")
	require.Equal(t, "text\n", new(Redactor).RedactLive("text\n"))
	require.Equal(t, "text\n", (*Redactor)(nil).RedactLive("text\n"))
	require.Zero(t, (*Redactor)(nil).Span())
}

// What is withheld does not depend on the characters after those that are hard to
// guess: each would be a question whether the next one is right.
func TestRedactLiveIsNoOracle(t *testing.T) {
	t.Parallel()
	secret := "tokentokenTOKENTOKENtokentoken\nTOKENTOKEN0123456789\nsecond"
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	r := new(Redactor)
	r.Add(secret)
	for form, compared := range map[string]int{secret: plainStart, encoded: base64Start} {
		for n := range len(form) - 5 { // the rest is the whole secret
			right, wrong := r.RedactLive("x\n"+form[:n+1]+"\n"), r.RedactLive("x\n"+form[:n]+"~\n")
			if n < compared-1 { // both are shown
				right, wrong = strings.ReplaceAll(right, form[:n+1], "?"), strings.ReplaceAll(wrong, form[:n]+"~", "?")
			}
			if n != compared-1 {
				require.Equal(t, right, wrong, "%d of %q", n, form)
			}
		}
	}
	require.Equal(t, "x\n", r.RedactLive("x\n"+secret[:plainStart]+"~~\n"))
	require.Equal(t, "x\n", r.RedactLive("x\n"+encoded[:base64Start]+"~~\n"))
	require.Equal(t, "x\n"+encoded[:base64Start-1]+"\n", r.RedactLive("x\n"+encoded[:base64Start-1]+"\n"))
}
