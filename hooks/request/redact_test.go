package request

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forms are the forms in which a receiver may repeat a secret, with what it may
// add around it.
var forms = map[string]func(s, before, after string) string{
	"plain":            func(s, b, a string) string { return b + s + a },
	"query":            func(s, b, a string) string { return url.QueryEscape(b + s + a) },
	"path":             func(s, b, a string) string { return url.PathEscape(b + s + a) },
	"percent, all":     func(s, b, a string) string { return b + percentAll(s, "%%%02X") + a },
	"percent, lower":   func(s, b, a string) string { return b + percentAll(s, "%%%02x") + a },
	"JSON":             func(s, b, a string) string { return marshal(b+s+a, true) },
	"JSON, no HTML":    func(s, b, a string) string { return marshal(b+s+a, false) },
	"JSON, slashes":    func(s, b, a string) string { return strings.ReplaceAll(marshal(b+s+a, false), "/", `\/`) },
	"JSON, all":        func(s, b, a string) string { return b + unicodeAll(s) + a },
	"base64":           func(s, b, a string) string { return base64.StdEncoding.EncodeToString([]byte(b + s + a)) },
	"base64, raw":      func(s, b, a string) string { return base64.RawStdEncoding.EncodeToString([]byte(b + s + a)) },
	"base64, URL":      func(s, b, a string) string { return base64.URLEncoding.EncodeToString([]byte(b + s + a)) },
	"base64, URL, raw": func(s, b, a string) string { return base64.RawURLEncoding.EncodeToString([]byte(b + s + a)) },
	"base64 in a query": func(s, b, a string) string {
		return "k=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(b+s+a)))
	},
	"base64 in JSON": func(s, b, a string) string {
		return strings.ReplaceAll(marshal(base64.StdEncoding.EncodeToString([]byte(b+s+a)), true), "/", `\/`)
	},
}

func percentAll(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

func unicodeAll(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x`, 0xd800+r>>10)
			r = 0xdc00 + r&0x3ff
		}
		fmt.Fprintf(&b, `\u%04X`, r)
	}
	return b.String()
}

func marshal(s string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(s)
	return b.String()
}

// randomText returns text of n characters that forms treat in different ways.
func randomText(r *rand.Rand, n int) string {
	const chars = `abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%%\\//++==--__"<>& ~äé漢😀` + "\n\t"
	var b strings.Builder
	for range n {
		list := []rune(chars)
		b.WriteRune(list[r.IntN(len(list))])
	}
	return b.String()
}

// remains reports whether a form of the secret, or most of it, is in text.
func remains(t *testing.T, secret, text string) {
	t.Helper()
	for name, form := range forms {
		part := strings.TrimSpace(form(secret, "", ""))
		if strings.HasPrefix(name, "JSON") || name == "base64 in JSON" {
			part = strings.Trim(part, `"`)
		}
		require.NotContains(t, text, part, name)
	}
	for skip := range 3 {
		require.NotContains(t, text, base64Pattern(secret, skip).text)
	}
}

// No form of a secret is left in redacted text, wherever it stands, and all
// other text is.
func TestRedact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		secret := randomText(r, 8+r.IntN(40))
		redactor := new(Redactor)
		redactor.Add(randomText(r, 12), secret, randomText(r, 12))
		before, after := strings.Repeat("(", r.IntN(8)), strings.Repeat(")", r.IntN(8))
		for name, form := range forms {
			text := form(secret, before, after)
			got := redactor.Redact(text)
			require.Contains(t, got, redacted, "%s of %q in %q", name, secret, text)
			remains(t, secret, got)
			require.Equal(t, got, redactor.Redact(got), "%s: it changes again", name)
		}
		plain := before + "nothing (of) [it]" + after
		require.Equal(t, plain, redactor.Redact(plain))
		require.Equal(t, before+redacted+after, redactor.Redact(before+secret+after))
	}
}

// Text that is ambiguous in many ways takes no longer than other text.
func TestRedactAmbiguous(t *testing.T) {
	for _, part := range []string{`\`, "%25", "%", `\u005c`} {
		redactor := new(Redactor)
		secret := strings.Repeat(part, 100)
		redactor.Add(secret)
		for name, form := range forms {
			remains(t, secret, redactor.Redact(form(secret, "", "")))
			require.Contains(t, redactor.redact(form(secret, "", "")[:100], true), redacted, name)
		}
		require.NotContains(t, redactor.Redact(strings.Repeat(part, 99)+"x"), redacted)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("canary-0123456789", "see %63anary-0123456789", true)
	f.Fuzz(func(t *testing.T, secret, text string, cut bool) {
		redactor := new(Redactor)
		redactor.Add(secret)
		got := redactor.redact(text+secret+text, cut)
		if len(secret) >= MinSecret && !strings.Contains(text, redacted) && !strings.Contains(secret, redacted) {
			require.Contains(t, got, redacted)
		}
	})
}

// The start of a secret at the end of text that was cut is redacted.
func TestRedactCut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		secret := randomText(r, 8+r.IntN(20)) + "z" // a final \\ is ambiguous before u
		redactor := new(Redactor)
		redactor.Add(secret)
		for name, form := range forms {
			text := form(secret, "", "")
			for n := 1; n <= len(text) && !strings.HasPrefix(name, "base64"); n++ {
				got := strings.Trim(redactor.redact(text[:n], true), "\"\n")
				require.Empty(t, strings.ReplaceAll(got, redacted, ""), "%s of %q: %q", name, secret, text[:n])
			}
		}
	}
	redactor := new(Redactor)
	redactor.Add("canary-0123456789")
	require.Equal(t, "see •••", redactor.redact("see canary-01", true))
	require.Equal(t, "see canary-01", redactor.redact("see canary-01", false))
}

// A response that consists of secrets is cut after they were replaced, not
// within one.
func TestRedactBeforeCut(t *testing.T) {
	const secret = `canary"0123456789-0123456789-0123456789-0123456789-0123456789`
	x := newExecutor(t, Options{})
	x.redactor.Add(secret)
	for n := range 40 {
		whole := strings.Repeat("x", n) + strings.Repeat(unicodeAll(secret), maxResponseBytes)
		text := x.clean(body{whole[:maxResponseBytes], true}, maxKept, secret)
		require.NotContains(t, text, `\u`, "%d", n)
		require.LessOrEqual(t, len(text), maxKept)
	}
}

// Parts of a URL are secret too, if they are long enough to be found nowhere
// else by accident; so are the values of its query.
func TestRedactURL(t *testing.T) {
	redactor := new(Redactor)
	redactor.Add("https://bot:hunter2-hunter2@hooks.example/services/T0123456789ABCDEF/B1?token=abcdefgh%26i&x=y")
	for _, text := range []string{
		"no path /services/T0123456789ABCDEF/B1 here", "T0123456789ABCDEF", "password hunter2-hunter2", "token=abcdefgh%26i&x=y", "token is abcdefgh&i",
	} {
		got := redactor.Redact(text)
		require.Contains(t, got, redacted, text)
		require.NotContains(t, got, "0123456789ABCDEF")
		require.NotContains(t, got, "hunter2")
		require.NotContains(t, got, "abcdefgh")
	}
	require.Equal(t, "services of hooks.example", redactor.Redact("services of hooks.example"))
}

// What a receiver decodes is secret too: the user of a URL, which may be a token,
// with and without its password, and what is percent-encoded in a secret.
func TestRedactDecoded(t *testing.T) {
	for secret, list := range map[string][]string{
		"https://canary-token@sentry.example/1":    {"canary-token", basicAuth("canary-token", ""), basicAuth("canary-token", "x")},
		"https://canary%2Dtoken@sentry.example/1":  {"canary-token", "canary%2dtoken"},
		"https://canary:tok@sentry.example/1":      {"canary:tok", basicAuth("canary", "tok")},
		"https://hooks.example/canary01":           {"/canary01", "%2Fcanary01"},
		"canary%2F0123%41+4":                       {"canary/0123A+4", "canary/0123A 4", base64.StdEncoding.EncodeToString([]byte("canary/0123A 4"))},
		"whsec_Y2FuYXJ5LTAxMjM0NTY3ODktMDEyMzQ1Ng": {"Y2FuYXJ5LTAxMjM0NTY3ODktMDEyMzQ1Ng"},
		"whsec_Y2FuYXJ5LTAxMjM0NTY3ODktMDEy":       {"Y2FuYXJ5LTAxMjM0NTY3ODktMDEy", "canary-0123456789-012"},
	} {
		redactor := new(Redactor)
		redactor.Add(secret)
		for _, text := range list {
			got := redactor.Redact("<" + text + ">")
			require.Contains(t, got, redacted, "%s in %s", text, secret)
			for _, part := range []string{"canary", "Y2FuYXJ5", "0123", "token"} {
				require.NotContains(t, got, part, "%s in %s", text, secret)
			}
		}
	}
}

// A secret in base64 is redacted although a program has broken its lines.
func TestRedactBrokenLines(t *testing.T) {
	secret := strings.Repeat("canary-0123456789/", 20)
	redactor := new(Redactor)
	redactor.Add(secret)
	for skip := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte("abc"[:skip] + secret))
		for _, width := range []int{64, 76} {
			for _, end := range []string{"\n", "\r\n", `\n`, `\r\n`, `\u000a`, "%0A", "%0d%0a"} {
				var b strings.Builder
				for rest := encoded; rest != ""; {
					n := min(width, len(rest))
					b.WriteString(rest[:n] + end)
					rest = rest[n:]
				}
				got := redactor.Redact("<" + b.String() + ">")
				require.Contains(t, got, redacted)
				require.LessOrEqual(t, len(got), len("<abc•••==>")+3*len(end), "%q: %s", end, got)
			}
		}
	}
}

// The private part of a key is secret without the rest of the key.
func TestRedactKey(t *testing.T) {
	redactor := new(Redactor)
	redactor.Add(`{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n", "client_email": "a@b.example"}`)
	require.Equal(t, "key: ••• of a@b.example", redactor.Redact("key: -----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY----- of a@b.example"))
}

// A Redactor knows the latest secrets, and ignores what is too short to be one.
func TestRedactorBounds(t *testing.T) {
	redactor := new(Redactor)
	redactor.Add("", "short", "1234567")
	require.Equal(t, "short 1234567", redactor.Redact("short 1234567"))
	var nothing *Redactor
	require.Equal(t, "x", nothing.Redact("x"))
	values := make([]string, maxRedacted+1)
	for i := range values {
		values[i] = fmt.Sprintf("secret-%06d", i)
	}
	redactor.Add(values...)
	require.Len(t, redactor.values, maxRedacted)
	require.Equal(t, "secret-000000 •••", redactor.Redact("secret-000000 "+values[maxRedacted]))
}

func BenchmarkRedact(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	redactor := new(Redactor)
	for range 100 {
		redactor.Add(fmt.Sprintf("secret-%016x", r.Uint64()))
	}
	text := strings.Repeat("2026-11-22T18:00:00Z INFO claimed workload=agent container=c-0123456789 \\n%20+", 800)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		redactor.Redact(text)
	}
}
