package credential

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

const (
	// maxTokenLength bounds a token: servers bound the headers of requests.
	maxTokenLength = 6 << 10
	// maxProofs bounds the bindings that a token depends on.
	maxProofs = 20
	minTTL    = time.Second
)

// ErrForbidden reports a token that its maker may not make. It is ErrInvalid too.
var ErrForbidden = fmt.Errorf("%w: the credential may not make this token", ErrInvalid)

// token is the content of a token, which its signature protects. Its holder can read
// it.
type token struct {
	ID    string    `json:"id"`
	Maker string    `json:"maker"` // its name
	Actor string    `json:"actor"` // and as events have it: two makers may have one name
	Kind  makerKind `json:"kind"`
	// Proofs are digests of the maker's key, or of the bindings that permit the token.
	Proofs    []string           `json:"proofs,omitempty"`
	Tenant    string             `json:"tenant"` // a name: characters of patterns have no meaning in it
	Workloads []activity.Pattern `json:"workloads,omitempty"`
	Claim     string             `json:"claim,omitempty"`
	Expires   int64              `json:"expires"` // in milliseconds since 1970
}

type makerKind string

const (
	keyMaker     makerKind = "key"
	subjectMaker makerKind = "subject"
	userMaker    makerKind = "user"
	localMaker   makerKind = "local"
)

// issued is the origin of the principal of a token.
type issued struct {
	token
	proofKey []byte
}

// principal returns the principal of a token.
func (i *issued) principal() *auth.Principal {
	return &auth.Principal{
		Actor:   "token:" + i.Actor + "#" + i.Tenant,
		Name:    i.Maker + "#" + i.Tenant,
		Grants:  []auth.Grant{{Role: auth.Tenant, Tenants: []activity.Pattern{activity.Exactly(i.Tenant)}, Workloads: i.Workloads, Claim: i.Claim}},
		Expires: time.UnixMilli(i.Expires).UTC(),
		Origin:  i,
	}
}

// check returns nil if the token has not expired and its maker may still make it.
func (i *issued) check(m *memory, now time.Time) error {
	if hasExpired(time.UnixMilli(i.Expires), now) {
		return auth.ErrExpired
	}
	grants, _ := i.makerGrants(m, now)
	if !covers(grants, i.Tenant, i.Workloads, i.Claim) {
		return auth.ErrRevoked
	}
	return nil
}

func (i *issued) usesDatabase(m *memory) bool {
	_, uses := i.makerGrants(m, time.Time{})
	return uses
}

// makerGrants returns what the maker still has of what permitted the token.
func (i *issued) makerGrants(m *memory, now time.Time) (grants []auth.Grant, usesDatabase bool) {
	switch i.Kind {
	case keyMaker:
		for _, e := range m.named(i.Maker) {
			if slices.Contains(i.Proofs, keyProof(i.proofKey, e)) {
				usesDatabase = usesDatabase || e.Source == Database
				if e.check(m, now) == nil {
					grants = append(grants, e.Grants...)
				}
			}
		}
	case subjectMaker:
		m.all(func(b *binding) {
			if slices.Contains(i.Proofs, b.digest) {
				usesDatabase = usesDatabase || b.Source == Database
				grants = append(grants, b.grantFor(i.Tenant))
			}
		})
	case userMaker, localMaker:
		usesDatabase = i.Kind == localMaker
		if (user{isLocal: usesDatabase}).check(m, now) == nil {
			grants = []auth.Grant{{Role: auth.Operator}}
		}
	}
	return grants, usesDatabase
}

// grantFor returns the grant of a binding to a maker who had the tenant when it
// proved that: the binding's digest shows that it has not changed since.
func (b *binding) grantFor(tenant string) auth.Grant {
	g := b.grant()
	if b.TenantClaim != "" {
		g.Tenants = []activity.Pattern{activity.Exactly(tenant)}
	}
	return g
}

func keyProof(key []byte, e *entry) string { return digest(key, "key", e.hash[:]) }

// permits reports whether a grant permits to act as a tenant, in a claim.
func permits(g auth.Grant, tenant, claim string) bool {
	if g.Role == auth.Operator {
		return true
	}
	return g.Role == auth.Tenant && (g.Claim == "" || g.Claim == claim) &&
		slices.ContainsFunc(g.Tenants, func(p activity.Pattern) bool { return p.Matches(tenant) })
}

// covers reports whether grants permit to act as a tenant on all that each of the
// patterns matches; without a pattern, on all workloads.
func covers(grants []auth.Grant, tenant string, workloads []activity.Pattern, claim string) bool {
	if len(workloads) == 0 {
		workloads = []activity.Pattern{activity.Anything}
	}
	return !slices.ContainsFunc(workloads, func(w activity.Pattern) bool {
		return !slices.ContainsFunc(grants, func(g auth.Grant) bool {
			return permits(g, tenant, claim) && (len(g.Workloads) == 0 ||
				slices.ContainsFunc(g.Workloads, func(outer activity.Pattern) bool { return includes(outer, w) }))
		})
	})
}

// includes reports whether a pattern matches all that another one matches.
func includes(outer, inner activity.Pattern) bool {
	if prefix, ok := inner.Prefix(); ok {
		within, ok := outer.Prefix()
		return ok && strings.HasPrefix(prefix, within)
	}
	name, ok := inner.Name()
	return ok && outer.Matches(name)
}

// workloadsOf returns the workloads on which grants act for a tenant: none for all.
func workloadsOf(grants []auth.Grant, tenant, claim string) (patterns []activity.Pattern) {
	for _, g := range grants {
		if !permits(g, tenant, claim) {
			continue
		}
		if len(g.Workloads) == 0 {
			return nil
		}
		for _, w := range g.Workloads {
			if !slices.Contains(patterns, w) {
				patterns = append(patterns, w)
			}
		}
	}
	return patterns
}

// CreateToken returns a token that acts as one tenant. The maker must act on what
// the token is for, as that tenant or as an operator, and must not be a token. The
// token ends with the maker's credential, or when that loses what the token has.
func (s *Service) CreateToken(ctx context.Context, maker *auth.Principal, n NewToken) (Token, error) {
	ttl := n.ExpiresIn
	if ttl == 0 {
		ttl = DefaultTokenTTL
	}
	switch {
	case ttl < minTTL || ttl > MaxTokenTTL:
		return Token{}, invalid("a token is for %s to %s", minTTL, MaxTokenTTL)
	case !tenantPattern.MatchString(n.Tenant):
		return Token{}, invalid("tenant %.70q is no tenant's name", n.Tenant)
	case len(n.Claim) > maxActorPart || !isPrintable(n.Claim):
		return Token{}, invalid("claim %.70q is no claim's id", n.Claim)
	}
	i := &issued{token: token{ID: newID(), Tenant: n.Tenant, Workloads: n.Workloads, Claim: n.Claim}, proofKey: s.proofKey}
	if err := s.prove(i, maker); err != nil {
		return Token{}, err
	}
	expires := time.Now().Add(ttl)
	if !maker.Expires.IsZero() && maker.Expires.Before(expires) {
		expires = maker.Expires
	}
	i.Expires = expires.UnixMilli()
	text, err := s.sign(i.token)
	if err != nil {
		return Token{}, err
	}
	result := Token{Token: text, Tenant: n.Tenant, Claim: n.Claim, ExpiresAt: time.UnixMilli(i.Expires).UTC()}
	event := s.event(ctx, activity.TokenCreated, "token for tenant "+n.Tenant+" made by "+maker.Actor,
		activity.TokenCreatedData{ExpiresAt: result.ExpiresAt, Maker: i.Maker, Token: i.ID})
	event.Tenant, event.Claim = n.Tenant, n.Claim
	if err := s.o.Store.RecordCredential(ctx, event); err != nil {
		return Token{}, err
	}
	return result, nil
}

func newID() string {
	random := make([]byte, 12)
	rand.Read(random) //nolint:errcheck // it never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// prove records in a token who makes it and what permits that.
func (s *Service) prove(i *issued, maker *auth.Principal) error {
	if maker == nil {
		return fmt.Errorf("%w: it needs a maker", ErrForbidden)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	i.Maker, i.Actor = maker.Name, maker.Actor
	switch origin := originOf(maker).(type) {
	case *entry:
		i.Kind, i.Proofs = keyMaker, []string{keyProof(s.proofKey, origin)}
	case *subject:
		i.Kind = subjectMaker
		s.memory.all(func(b *binding) {
			g, ok := b.grantTo(&origin.Subject)
			if ok && b.matches(&origin.Subject) && permits(g, i.Tenant, i.Claim) && len(i.Proofs) < maxProofs {
				i.Proofs = append(i.Proofs, b.digest)
			}
		})
	case user:
		i.Kind = userMaker
		if origin.isLocal {
			i.Kind = localMaker
		}
	default:
		return fmt.Errorf("%w: a token makes no tokens", ErrForbidden)
	}
	now := time.Now()
	grants, _ := i.makerGrants(&s.memory, now)
	if len(i.Workloads) == 0 {
		i.Workloads = workloadsOf(grants, i.Tenant, i.Claim)
	}
	if originOf(maker).check(&s.memory, now) != nil || !covers(grants, i.Tenant, i.Workloads, i.Claim) {
		return fmt.Errorf("%w: it does not act as the tenant on what the token is for", ErrForbidden)
	}
	return nil
}

// sign returns the text of a token.
func (s *Service) sign(t token) (string, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return "", invalid("%v", err)
	}
	text := tokenPrefix + base64.RawURLEncoding.EncodeToString(body)
	text += "." + base64.RawURLEncoding.EncodeToString(s.signature(text))
	if len(text) > maxTokenLength {
		return "", invalid("the token would be longer than %d bytes: name fewer workloads", maxTokenLength)
	}
	return text, nil
}

func (s *Service) signature(text string) []byte {
	mac := hmac.New(sha256.New, s.tokenKey)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// verify returns the content of a token that this server, or another one of the
// installation, has signed.
func (s *Service) verify(text string) (*issued, error) {
	signed, sum, ok := strings.Cut(text, ".")
	given, err := base64.RawURLEncoding.Strict().DecodeString(sum)
	if !ok || err != nil || len(text) > maxTokenLength || !hmac.Equal(given, s.signature(signed)) {
		return nil, auth.ErrInvalidCredential
	}
	body, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(signed, tokenPrefix))
	i := &issued{proofKey: s.proofKey}
	if err := errors.Join(err, json.Unmarshal(body, &i.token)); err != nil {
		return nil, auth.ErrInvalidCredential
	}
	return i, nil
}
