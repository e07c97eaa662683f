package credential

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

const (
	// minKeyLength is the minimum length of a key of a file. Keys are compared by a
	// fast hash, so they must be too long for a brute-force attack.
	minKeyLength = 16
	maxKeyFile   = 8 << 20
)

// parseKeyFile reads a file with one key per line, each of 16 characters or more. A
// line may begin with a name and a colon: the name is shown in the log. What follows
// the key are attributes: role=ROLE, tenant=PATTERN and workload=PATTERN, the last
// two as often as needed. A key without a role is an operator's. Lines that begin
// with # are comments. Its errors never quote a line, because it may contain a key.
func parseKeyFile(text []byte) (map[hash]*entry, error) {
	keys, at := map[hash]*entry{}, map[hash]int{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		e, err := parseKeyLine(line, fmt.Sprintf("line-%d", n))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if other := keys[e.hash]; other != nil && !(isSubset(e.Grants, other.Grants) && isSubset(other.Grants, e.Grants)) {
			return nil, fmt.Errorf("line %d: line %d has the same key with another role", n, at[e.hash])
		}
		keys[e.hash], at[e.hash] = e, n
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errors.New("the file has no keys")
	}
	return keys, nil
}

func parseKeyLine(line, name string) (*entry, error) {
	if before, rest, ok := strings.Cut(line, ":"); ok && namePattern.MatchString(before) {
		name, line = before, strings.TrimSpace(rest)
	}
	key, attributes := line, []string(nil)
	if fields := strings.Fields(line); len(fields) > 0 {
		key, attributes = fields[0], fields[1:]
	}
	if len(key) < minKeyLength {
		return nil, fmt.Errorf("the key is shorter than %d characters", minKeyLength)
	}
	grant, err := parseAttributes(attributes)
	if err != nil {
		return nil, err
	}
	e, err := newEntry(Record{Hash: hashOf(key).String(), Key: Key{Name: name, Grants: []auth.Grant{grant}, Source: File}})
	if err == nil {
		e.isMade = strings.HasPrefix(key, keyPrefix)
	}
	return e, err
}

// attributes are those of a line, and what they add to a grant.
var attributes = map[string]func(g *auth.Grant, value string) error{
	"role": func(g *auth.Grant, value string) error {
		if g.Role != "" {
			return errors.New("a key has one role")
		}
		g.Role = auth.Role(value)
		return nil
	},
	"tenant":   func(g *auth.Grant, value string) error { return addPattern(&g.Tenants, value) },
	"workload": func(g *auth.Grant, value string) error { return addPattern(&g.Workloads, value) },
}

func addPattern(list *[]activity.Pattern, value string) error {
	p, err := activity.ParsePattern(value)
	if err != nil {
		return errors.New("a pattern is a name, or a prefix and *")
	}
	*list = append(*list, p)
	return nil
}

// parseAttributes returns the grant of a line. Its errors quote nothing: what looks
// like an attribute may be a part of a key with whitespace.
func parseAttributes(fields []string) (g auth.Grant, err error) {
	for _, field := range fields {
		name, value, ok := strings.Cut(field, "=")
		if !ok {
			return g, errors.New("the key contains whitespace")
		}
		add, ok := attributes[name]
		if !ok {
			return g, errors.New("an attribute after the key is none of role, tenant and workload")
		}
		if err := add(&g, value); err != nil {
			return g, fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	if g.Role == "" {
		if len(fields) > 0 {
			return g, errors.New("a key with tenants or workloads needs a role")
		}
		g.Role = auth.Operator
	}
	if !isRole(g.Role) {
		return g, errors.New("attribute role: it is one of tenant, author, viewer, operator and metrics")
	}
	return g, g.Check()
}

// useKeyFile has the keys of a file in use. Keys that have not changed stay the same
// ones, with the requests that they have begun.
func (s *Service) useKeyFile(content []byte) error {
	keys, err := parseKeyFile(content)
	if err != nil {
		return err
	}
	for _, e := range keys {
		if e.isMade {
			// One line: a client's HOSTLER_API_KEY_FILE has one key.
			s.log.Warn("the key file has a key that a server made: it stays valid when that key is revoked; HOSTLER_API_KEY_FILE is the client's key, and for serve its key file",
				"file", s.o.KeyFile, "name", e.Name)
			break
		}
	}
	s.change(func(m *memory) {
		names := map[string][]*entry{}
		for h, e := range keys {
			if old := m.file[h]; old != nil && old.Name == e.Name && isSubset(e.Grants, old.Grants) && isSubset(old.Grants, e.Grants) {
				keys[h], e = old, old
			}
			names[e.Name] = append(names[e.Name], e)
		}
		m.file, m.fileNames = keys, names
	})
	return nil
}
