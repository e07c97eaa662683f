package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

// maxTenantValues bounds the values of a tenant claim: a token with more gets none.
const maxTenantValues = 100

// binding is a binding in memory.
type binding struct {
	Binding
	digest string // of all that it gives, and to whom
}

// newBinding returns a binding whose digest the key makes.
func newBinding(b Binding, key []byte) (binding, error) {
	text, err := json.Marshal(b) // maps are written in the order of their keys
	if err != nil {
		return binding{}, err
	}
	return binding{b, digest(key, "binding", text)}, nil
}

// digest returns a name of a content that reveals nothing of it.
func digest(key []byte, purpose string, content []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(purpose + "\x00"))
	mac.Write(content)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:15])
}

// grant returns the grant of a binding, without the tenants of a token's claim.
func (b Binding) grant() auth.Grant {
	return auth.Grant{Role: b.Role, Tenants: slices.Clip(b.Tenants), Workloads: b.Workloads}
}

// matches reports whether the binding is for a subject.
func (b *binding) matches(s *auth.Subject) bool {
	if b.Kind != s.Kind || b.Issuer != s.Issuer || b.Subject != nil && !b.Subject.Matches(s.Name) {
		return false
	}
	for name, pattern := range b.Claims {
		if !slices.ContainsFunc(s.Claims[name], pattern.Matches) {
			return false
		}
	}
	return true
}

// grantTo returns what the binding gives to a subject that it is for.
func (b *binding) grantTo(s *auth.Subject) (g auth.Grant, ok bool) {
	g = b.grant()
	if b.TenantClaim == "" {
		return g, true
	}
	values := s.Claims[b.TenantClaim]
	if len(values) > maxTenantValues {
		return g, false
	}
	for _, tenant := range values {
		if tenantPattern.MatchString(tenant) {
			g.Tenants = append(g.Tenants, activity.Exactly(tenant))
		}
	}
	return g, len(g.Tenants) > 0
}

// subject is the origin of a principal that has the grants of bindings.
type subject struct {
	auth.Subject
	grants []auth.Grant
}

// grantsOf returns the union of what bindings give to a subject, and whether one of
// them is in the database.
func (m *memory) grantsOf(s *auth.Subject) (grants []auth.Grant, usesDatabase bool) {
	m.all(func(b *binding) {
		if !b.matches(s) {
			return
		}
		g, ok := b.grantTo(s)
		if !ok {
			return
		}
		usesDatabase = usesDatabase || b.Source == Database
		if !hasGrant(grants, g) {
			grants = append(grants, g)
		}
	})
	return grants, usesDatabase
}

// check returns nil if the subject has the grants that it had.
func (s *subject) check(m *memory, now time.Time) error {
	if hasExpired(s.Expires, now) {
		return auth.ErrExpired
	}
	if grants, _ := m.grantsOf(&s.Subject); !isSubset(grants, s.grants) || !isSubset(s.grants, grants) {
		return auth.ErrRevoked
	}
	return nil
}

// isSubset reports whether all grants are among others.
func isSubset(grants, others []auth.Grant) bool {
	return !slices.ContainsFunc(grants, func(g auth.Grant) bool { return !hasGrant(others, g) })
}

func hasGrant(grants []auth.Grant, g auth.Grant) bool {
	return slices.ContainsFunc(grants, func(other auth.Grant) bool { return reflect.DeepEqual(g, other) })
}

func (s *subject) usesDatabase(m *memory) bool {
	_, uses := m.grantsOf(&s.Subject)
	return uses
}

// principal returns the principal of a subject: nil if no binding is for it.
func (m *memory) principal(s auth.Subject) *auth.Principal {
	grants, _ := m.grantsOf(&s)
	if len(grants) == 0 {
		return nil
	}
	p := &auth.Principal{Name: actorPart(s.Name), Grants: grants, Expires: s.Expires, Origin: &subject{s, grants}}
	p.Actor = string(s.Kind) + ":" + p.Name
	if s.Kind == auth.OIDCSubject {
		p.Actor = string(s.Kind) + ":" + actorPart(s.Issuer) + "#" + p.Name
	}
	return p
}

// user is the origin of the principal of a user who is an operator without a
// binding, and of a client of a server without credentials.
type user struct{ isLocal bool }

func (u user) check(m *memory, _ time.Time) error {
	if u.isLocal && !m.isOpen {
		return auth.ErrRevoked
	}
	return nil
}

func (u user) usesDatabase(*memory) bool { return u.isLocal }

// operatorOf returns the principal of root, or of the server's own user.
func operatorOf(uid uint32) *auth.Principal {
	name := "unix:" + strconv.FormatUint(uint64(uid), 10)
	return &auth.Principal{Actor: name, Name: name, Grants: []auth.Grant{{Role: auth.Operator}}, Origin: user{}}
}

func unixSubject(uid uint32) auth.Subject {
	return auth.Subject{Kind: auth.UnixSubject, Name: strconv.FormatUint(uint64(uid), 10)}
}
