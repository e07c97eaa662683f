package request

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No part of a secret is left where a text was cut, in whatever form and wherever it
// was cut. What the cut leaves out does not depend on what is there: a guess of the
// beginning of a secret looks like any other text.
func TestNoPartOfSecretAtCut(t *testing.T) {
	const secret = "correct-horse/\"bat\x07tery\"é"
	redactor := new(Redactor)
	redactor.Add(secret)
	escaped, err := json.Marshal(secret)
	require.NoError(t, err)
	forms := []string{secret, url.QueryEscape(secret), string(escaped), base64.StdEncoding.EncodeToString([]byte("k:" + secret))}
	plain := strings.Repeat("plain text ", 100)
	for _, form := range forms {
		for i := 1; i < len(form); i++ {
			head, tail := redactor.RedactEnds(plain+form[:i], form[i:]+plain)
			require.Truef(t, strings.HasPrefix(plain, head), "%q", head)
			require.Truef(t, strings.HasSuffix(plain, tail), "%q", tail)
			require.Equal(t, []int{len(plain) + i - 512, len(plain) + len(form) - i - 512}, []int{len(head), len(tail)})
		}
		for near := range 600 { // whole ones, at each place near the cut
			before, after := plain[:near], plain[len(plain)-near:]
			head, tail := redactor.RedactEnds(plain+form+before, after+form+plain)
			for _, text := range []string{head, tail} {
				require.NotContains(t, text, "corr")
				require.NotContains(t, text, "tery")
			}
		}
	}
	guess, _ := redactor.RedactEnds(plain+secret[:9], "")
	other, _ := redactor.RedactEnds(plain+"not-it---", "")
	require.Equal(t, other, guess)

	redactor.Add(strings.Repeat("0123456789", 1000)) // longer than what is kept
	head, tail := redactor.RedactEnds(plain, plain)
	require.Empty(t, head+tail)
	head, tail = new(Redactor).RedactEnds("a\xff", "b") // nothing is known
	require.Equal(t, "a\xffb", head+tail)
}

// A secret is also found as outputs are kept, whose bytes are text, and as terminals
// print it, which end lines with two characters.
func TestPrintedSecrets(t *testing.T) {
	for secret, printed := range map[string]string{
		"corr\xff\x00ect-horse":  "corr\uFFFD\uFFFDect-horse",
		"-----KEY\nbase64=\nend": "-----KEY\r\nbase64=\r\nend",
	} {
		redactor := new(Redactor)
		redactor.Add(secret)
		require.Equal(t, "<•••>", redactor.Redact("<"+printed+">"))
		require.Equal(t, "<•••>", redactor.Redact("<"+secret+">"))
	}
}
