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
	"strings"
)

// minKeyLength is how long a key must be. Keys are compared by a fast hash, so that
// they must be too many to be tried.
const minKeyLength = 16

// Keys are who may use the API.
type Keys struct {
	names  []string
	hashes [][sha256.Size]byte
}

// keyName is what may stand before the colon of a line with a key.
var keyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ReadKeys reads a file with one key a line, each of 16 characters or more.
// A line may begin with a name and a colon: the name is shown in the log. What
// begins with # is a comment.
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

// parseKeys never says what is in a line: it may be a key.
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
			return nil, fmt.Errorf("line %d: a key has %d characters or more", n, minKeyLength)
		}
		if strings.ContainsAny(key, " \t") {
			return nil, fmt.Errorf("line %d: a key has no blanks", n)
		}
		keys.names = append(keys.names, name)
		keys.hashes = append(keys.hashes, sha256.Sum256([]byte(key)))
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(keys.names) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return keys, nil
}

// lookup says whose key it is. It takes as long for a wrong key as for a right
// one, wherever that stands.
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

// keyOf is the key that came with a request.
func keyOf(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return r.Header.Get("X-API-Key")
}

// publicPaths are the paths that need no key: probes have none.
var publicPaths = map[string]bool{"/healthz": true, "/readyz": true}

// authenticate says who sent the request, or refuses it.
func (a *API) authenticate(r *http.Request) (principal string, refused *Problem) {
	if err := a.crossOrigin.Check(r); err != nil {
		return "", newProblem(r.Context(), Forbidden, "a page of another origin may not change anything here")
	}
	if a.o.Keys == nil {
		// Without keys the address is all that protects us. A page whose name
		// was made to point here would be let in by it, but not by its name.
		if !isLoopback(r.Host) {
			return "", newProblem(r.Context(), Forbidden, "a server without API keys answers only to the names of this machine, not to "+quote(r.Host))
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
		return "", newProblem(r.Context(), Unauthorized, "the API key is not known")
	}
	return principal, nil
}

// isLoopback says whether a host, with or without a port, names this machine.
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

// quote is text of a stranger, safe to show.
func quote(s string) string { return fmt.Sprintf("%.100q", s) }
