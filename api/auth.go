package api

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
)

// minKeyLength is the minimum length of a key. Keys are compared by a fast
// hash, so they must be too long for a brute-force attack.
const minKeyLength = 16

// Keys are the API keys that are accepted.
type Keys struct {
	names  []string
	hashes [][sha256.Size]byte
}

// keyName matches the name before the colon of a line with a key.
var keyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ReadKeys reads a file with one key per line, each of 16 characters or more. A
// line may begin with a name and a colon: the name is shown in the log. Lines
// that begin with # are comments.
func ReadKeys(path string) (*Keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the API keys: %w", err)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("read the API keys of %s: %w", path, err)
	}
	return keys, nil
}

// parseKeys parses the lines. Its errors never quote a line, because it may
// contain a key.
func parseKeys(text []byte) (*Keys, error) {
	keys := &Keys{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		key := strings.TrimSpace(lines.Text())
		if key == "" || strings.HasPrefix(key, "#") {
			continue
		}
		name := fmt.Sprintf("line-%d", n)
		if before, rest, ok := strings.Cut(key, ":"); ok && keyName.MatchString(before) {
			name, key = before, strings.TrimSpace(rest)
		}
		if len(key) < minKeyLength {
			return nil, fmt.Errorf("line %d: the key is shorter than %d characters", n, minKeyLength)
		}
		if strings.ContainsAny(key, " \t") {
			return nil, fmt.Errorf("line %d: the key contains whitespace", n)
		}
		keys.names = append(keys.names, name)
		keys.hashes = append(keys.hashes, sha256.Sum256([]byte(key)))
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(keys.names) == 0 {
		return nil, errors.New("the file has no keys")
	}
	return keys, nil
}

// lookup returns the name of a key. It takes the same time for an invalid key
// as for a valid one, whatever its position.
func (k *Keys) lookup(key string) (name string, ok bool) {
	given := sha256.Sum256([]byte(key))
	found := -1
	for i := range k.hashes {
		if subtle.ConstantTimeCompare(given[:], k.hashes[i][:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return "", false
	}
	return k.names[found], true
}

// isIn reports whether a header has one of the keys.
func (k *Keys) isIn(header string) bool {
	return k != nil && slices.ContainsFunc(strings.Fields(header), func(text string) bool {
		_, ok := k.lookup(text)
		return ok
	})
}

// keyOf returns the key of a request.
func keyOf(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return r.Header.Get("X-API-Key")
}

// publicPaths are the paths that need no key: probes have none.
var publicPaths = map[string]bool{"/healthz": true, "/readyz": true}

// authenticate returns the name of the key that sent the request, or refuses
// the request.
func (a *API) authenticate(r *http.Request) (principal string, refused *Problem) {
	if err := a.crossOrigin.Check(r); err != nil {
		return "", newProblem(r.Context(), Forbidden, "cross-origin requests that change state are not allowed")
	}
	if a.o.Keys == nil {
		// Without keys only the address protects the server. The check of the
		// host name prevents DNS rebinding, where a page's name resolves to
		// this address.
		if !isLoopback(r.Host) {
			return "", newProblem(r.Context(), Forbidden, "a server without API keys accepts only loopback host names, not "+quote(r.Host))
		}
		return "", nil
	}
	if publicPaths[r.URL.Path] {
		return "", nil
	}
	key := keyOf(r)
	if key == "" {
		return "", newProblem(r.Context(), Unauthorized, "send an API key as Authorization: Bearer KEY, or as X-API-Key")
	}
	principal, ok := a.o.Keys.lookup(key)
	if !ok {
		return "", newProblem(r.Context(), Unauthorized, "invalid API key")
	}
	return principal, nil
}

// isLoopback reports whether a host, with or without a port, is a loopback name
// or address.
func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// quote returns untrusted text in a form that is safe to show.
func quote(s string) string { return fmt.Sprintf("%.100q", s) }
