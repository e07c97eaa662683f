package variables

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The place of a value decides its encoding.
func TestURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://h/a":                         "https://h/a",
		"https://h":                           "https://h",
		"http://h:80/${T}/b":                  "http://h:80/t-1/b",
		"https://h/${U}/b":                    "https://h/u%2F%22%26%3F/b",
		"https://h/?q=${U}&r=1":               "https://h/?q=u%2F%22%26%3F&r=1",
		"https://h/?${T}=1&a${S}":             "https://h/?t-1=1&as3cret/%2F",
		"https://h/?a=b=${U}${U}":             "https://h/?a=b=u%2F%22%26%3Fu%2F%22%26%3F",
		"https://h/ü\"|{/${U}?ü=\"":           "https://h/%C3%BC%22%7C%7B/u%2F%22%26%3F?%C3%BC=%22",
		"https://h?q=${T}":                    "https://h?q=t-1",
		"https://h/${C}/${S}":                 "https://h/c/d/s3cret/%2F",
		"https://h/x${C}":                     "https://h/xc/d",
		"${BASE}":                             "https://base.example/hook?k=v",
		"${BASE}&q=${U}":                      "", // only the value shows that it is in the query
		"${BASE}/?q=${U}":                     "https://base.example/hook?k=v/?q=u%2F%22%26%3F",
		"${HTTP}://${HOST}/${U}":              "https://h.example:8443/u%2F%22%26%3F",
		"https://x.${HOST}/${T}":              "https://x.h.example:8443/t-1",
		"https://h/%2E/${T}":                  "https://h/%2E/t-1",
		"https://h/%41${T}":                   "https://h/%41t-1",
		"https://h/a.${T}.json":               "https://h/a.t-1.json",
		"https://h/${T}#part":                 "https://h/t-1#part",
		"https://user:pw@h/${T}":              "https://user:pw@h/t-1",
		"https://h/../${T}":                   "https://h/../t-1", // written by the author
		"https://[::1]:8080/${T}?at=a%20b%3D": "https://[::1]:8080/t-1?at=a%20b%3D",
	} {
		template := parse(t, text)
		if want == "" {
			require.Error(t, template.CheckURL(classOf), text)
			continue
		}
		require.NoError(t, template.CheckURL(classOf), text)
		u, err := template.URL(lookup())
		require.NoError(t, err, text)
		require.Equal(t, want, u.String(), text)
	}
}

// A template that cannot be a URL, or that has a variable where it may not
// stand, is refused when the file is loaded.
func TestCheckURL(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "at offset 0: not an http or https URL: write https://HOST/PATH",
		"h/a":                   "at offset 0: not an http or https URL",
		"/a":                    "at offset 0: not an http or https URL",
		"ftp://h/a":             "at offset 0: not an http or https URL",
		"https:///a":            "at offset 0: a URL without a host",
		"https://:80/a":         "at offset 0: a URL without a host",
		"https:h/a":             "at offset 0: a URL without a host",
		"https://h:x/a":         "at offset 0: not a URL",
		"https://h/%zz":         "at offset 0: not a URL",
		"https://h/a b":         "at offset 11: a space or a control character",
		"https://h/$${\n":       "at offset 13: a space or a control character",
		"https://h/?a=b\r\nc":   "at offset 14: a space or a control character",
		"https://h/${X}":        "X at offset 10 is not a variable that is available here",
		"https://${T}/a":        "T at offset 8 may not stand in the scheme or host of a URL",
		"https://${U}/a":        "U at offset 8 is written by a tenant and may not stand in the scheme or host of a URL",
		"https://h${T}":         "T at offset 9 may not stand in the scheme or host",
		"https://h:${NUM}/a":    "NUM at offset 10 may not stand in the scheme or host",
		"https://u:${T}@h/a":    "T at offset 10 may not stand in the scheme or host",
		"${T}://h/a":            "T at offset 0 may not stand in the scheme or host",
		"${BASE}${T}":           "T at offset 7 may not stand in the scheme or host",
		"${HTTP}://${HOST}${U}": "U at offset 17 is written by a tenant",
		"${T}/a":                "T at offset 0 may not stand in the scheme or host",
		"https://h/a#${T}":      "T at offset 12 may not stand in the fragment of a URL",
		"https://h/a#${C}":      "C at offset 12 may not stand in the fragment of a URL",
		"https://h/a?b#c/${S}":  "S at offset 16 is a secret and may not stand in the fragment of a URL",
		"https://h/?${U}":       "U at offset 11 is written by a tenant and may not stand in a key of a URL's query: write it in a value",
		"https://h/?a=b&${U}=c": "U at offset 15 is written by a tenant and may not stand in a key",
		"https://h?a=b;x${U}":   "U at offset 15 is written by a tenant and may not stand in a key",
		"https://h/%${T}":       "T at offset 11 is within a percent-encoded character",
		"https://h/%4${U}":      "U at offset 12 is within a percent-encoded character",
		"https://h/?a=%${U}":    "U at offset 14 is within a percent-encoded character",
		"ftp://${HOST}/a":       "at offset 0: not an http or https URL",
	} {
		err := parse(t, text).CheckURL(classOf)
		require.ErrorContains(t, err, want, "%q", text)
	}
}

// No value makes the path of a request another one.
func TestValuesKeepThePath(t *testing.T) {
	for text, bad := range map[string][]string{
		"https://h/a/${V}/b": {"", ".", "..", "../x", "x/..", "x/../y", `..\x`, `x\..`, "./x", "a\x00", "a\nb", "\x7f"},
		"https://h/a/.${V}":  {"", ".", "./x", "/..", "/x"},
		"https://h/a/${V}.":  {"", ".", "x/.", "x/"}, // x/. ends with a dot segment
		"https://h/?q=${V}":  {""},
	} {
		for _, class := range []Class{Trusted, Untrusted} {
			for _, value := range bad {
				u, err := parse(t, text).URL(lookup(map[string]Value{"V": {value, class}}))
				require.ErrorContains(t, err, "V at offset", "%q in %s: %v", value, text, u)
			}
		}
	}
	for value, want := range map[string]string{
		"...": "https://h/...", "..x": "https://h/..x", "a b+c": "https://h/a%20b%2Bc", "%2e%2e": "https://h/%252e%252e", "\xff": "https://h/%FF",
		"ü": "https://h/%C3%BC", "a;b=c": "https://h/a%3Bb%3Dc", "https://evil/": "https://h/https%3A%2F%2Fevil%2F", "@x:1": "https://h/%40x%3A1", "${T}": "https://h/%24%7BT%7D",
	} {
		u, err := parse(t, "https://h/${V}").URL(lookup(map[string]Value{"V": {value, Untrusted}}))
		require.NoError(t, err, value)
		require.Equal(t, want, u.String())
		require.Equal(t, "h", u.Host)
	}
	u, err := parse(t, "https://h/?a=${V}").URL(lookup(map[string]Value{"V": {"..\r\n&b=c#d", Untrusted}}))
	require.NoError(t, err)
	require.Equal(t, "a=..%0D%0A%26b%3Dc%23d", u.RawQuery)
	require.Equal(t, "..\r\n&b=c#d", u.Query().Get("a"))
}

// Where a value stands depends on the values that are inserted as they are. It
// is checked again when they are known.
func TestValuesThatAreInsertedAsTheyAre(t *testing.T) {
	for _, c := range []struct{ text, base, want string }{
		{"${B}/${U}", "https:/", "U at offset 5 is written by a tenant and may not stand in the scheme or host"},
		{"${B}/${U}", "https://h#f", "U at offset 5 is written by a tenant and may not stand in the fragment"},
		{"${B}/${U}", "ftp://h", "not an http or https URL"},
		{"${B}/${U}", "h", "not an http or https URL"},
		{"${B}/${U}", "https://", "a URL without a host"},
		{"${B}/${U}", "https://a b", "not a URL: it has a space"},
		{"${B}/${U}", "https://a\n", "not a URL: it has a space"},
		{"${B}", "https://h:secretport", "not a URL"},
		{"https://h/${B}${U}", "%", "U at offset 14 is within a percent-encoded character"},
		{"https://h/${B}${U}", "%4", "U at offset 14 is within a percent-encoded character"},
		{"https://h/${B}${D}", ".", "D at offset 14 is in a segment of the path"},
		{"https://h/${B}", "", "B at offset 10 is empty"},
		{"https://h?${B}${U}", "a=b&", "U at offset 14 is written by a tenant and may not stand in a key"},
	} {
		look := lookup(map[string]Value{"B": {c.base, Secret}, "D": {".", Untrusted}})
		_, err := parse(t, c.text).URL(look)
		require.ErrorContains(t, err, c.want, "%s with %s", c.text, c.base)
		require.NotContains(t, err.Error(), "secretport")
	}
	// An encoded slash remains encoded next to what the URL should not have.
	for _, raw := range []string{`"`, "<>", "ü", "\\", "^", "`", "{|}", "\xff"} {
		for _, value := range []Value{{raw, Secret}, {raw, Configured}} {
			u, err := parse(t, "https://h/${B}/${U}").URL(lookup(map[string]Value{"B": value, "U": {"a/b", Untrusted}}))
			require.NoError(t, err)
			require.Equal(t, "https://h/"+escape(raw)+"/a%2Fb", u.String())
		}
	}
	look := lookup(map[string]Value{"B": {"https://h/?q=", Configured}})
	u, err := parse(t, "${B}/${U}").URL(look)
	require.NoError(t, err)
	require.Equal(t, "https://h/?q=/u%2F%22%26%3F", u.String())
}

// The host is known only if no variable can change it.
func TestHost(t *testing.T) {
	for text, want := range map[string]string{
		"https://h.example/${T}": "h.example", "https://h:8443?a=${S}": "h:8443", "https://u:p@h/": "h", "https://h": "h",
		"https://${HOST}/": "", "${HTTP}://h/": "", "https://h${T}": "", "${BASE}": "", "": "", "https://h/%zz": "", "https://h:${NUM}/": "", "/a": "",
	} {
		require.Equal(t, want, parse(t, text).Host(), text)
	}
}
