package credential

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hostler/hostler/auth"
)

// maxBearer bounds a credential. Tokens of other issuers are the longest.
const maxBearer = 16 << 10

// origin is what a principal's credential is known by.
type origin interface {
	// check returns nil if the credential is accepted with the grants that the
	// principal has, else auth.ErrExpired or auth.ErrRevoked.
	check(m *memory, now time.Time) error
	// usesDatabase reports whether that depends on the database.
	usesDatabase(m *memory) bool
}

// originOf returns the origin of a principal. One without is a client of a server
// without credentials.
func originOf(p *auth.Principal) origin {
	if o, ok := p.Origin.(origin); ok {
		return o
	}
	return user{isLocal: true}
}

// IsOpen implements auth.Authenticator. A server that had credentials once is not
// open again when all of them are gone, and one that cannot read the database is not:
// another server may have made the first credential.
func (s *Service) IsOpen() bool { return s.open.Load() && !s.isStale() }

// Authenticate implements auth.Authenticator. The credential of the header precedes
// those of the connection.
func (s *Service) Authenticate(ctx context.Context, r auth.Request) (*auth.Principal, error) {
	p, err := s.known(ctx, r)
	if err != nil {
		return nil, err
	}
	if e, ok := p.Origin.(*entry); ok {
		e.use(time.Now())
	}
	return p, nil
}

// IsCredential implements auth.Authenticator.
func (s *Service) IsCredential(ctx context.Context, text string) bool {
	if text == "" {
		return false
	}
	if isJWTShaped(text) && s.o.Tokens != nil {
		_, err := s.o.Tokens.Verify(ctx, text) // also one that no binding is for
		return err == nil || s.isKnown(ctx, text)
	}
	return s.isKnown(ctx, text)
}

// isKnown reports whether a key or token is accepted, or may be: what cannot be
// checked is not passed on.
func (s *Service) isKnown(ctx context.Context, text string) bool {
	_, err := s.known(ctx, auth.Request{Bearer: text})
	return err == nil || errors.Is(err, auth.ErrUnavailable)
}

// known returns the principal of a request.
func (s *Service) known(ctx context.Context, r auth.Request) (*auth.Principal, error) {
	find, err := s.finder(ctx, r)
	if err != nil {
		return nil, err
	}
	p, err := s.find(find)
	if err == nil && !s.isStale() || err != nil && !s.mayBeNew(r.Bearer) {
		return p, err
	}
	if err == nil && !s.dependsOnDatabase(p) {
		return p, nil
	}
	if err := s.refresh(ctx, err != nil); err != nil {
		return nil, auth.ErrUnavailable
	}
	return s.find(find)
}

// find returns the principal that a finder finds, if it is accepted.
func (s *Service) find(find finder) (*auth.Principal, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := find(&s.memory)
	if p == nil || originOf(p).check(&s.memory, time.Now()) != nil {
		return nil, auth.ErrInvalidCredential
	}
	return p, nil
}

func (s *Service) dependsOnDatabase(p *auth.Principal) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return originOf(p).usesDatabase(&s.memory)
}

// mayBeNew reports whether a credential that is not in memory may be a key that
// another server has created since the last read, or a token whose signature is
// right and that such a key has made. The check is cheap; the reads that it causes
// are limited by refresh.
func (s *Service) mayBeNew(bearer string) bool {
	if !s.isShared {
		return false
	}
	if strings.HasPrefix(bearer, tokenPrefix) {
		return true
	}
	if !isKeyShaped(bearer) {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.memory.find(hashOf(bearer)) == nil
}

// finder finds the principal of a credential in memory: nil if there is none.
type finder func(m *memory) *auth.Principal

// finder returns how to find the principal of a request.
func (s *Service) finder(ctx context.Context, r auth.Request) (finder, error) {
	switch {
	case len(r.Bearer) > maxBearer:
		return nil, auth.ErrInvalidCredential
	case r.Bearer != "":
		return s.bearerFinder(ctx, r.Bearer)
	case r.Certificate != nil:
		subject, err := auth.CertificateSubject(r.Certificate)
		if err != nil {
			return nil, err
		}
		return subjectFinder(subject)
	case r.UID != nil && (*r.UID == 0 || *r.UID == s.o.OwnUID):
		p := operatorOf(*r.UID)
		return func(*memory) *auth.Principal { return p }, nil
	case r.UID != nil:
		return subjectFinder(unixSubject(*r.UID))
	case s.open.Load() && s.isStale():
		return nil, auth.ErrUnavailable
	}
	return nil, auth.ErrNoCredential
}

func (s *Service) bearerFinder(ctx context.Context, bearer string) (finder, error) {
	if strings.HasPrefix(bearer, tokenPrefix) {
		i, err := s.verify(bearer)
		if err != nil {
			return nil, err
		}
		p := i.principal()
		return func(*memory) *auth.Principal { return p }, nil
	}
	h := hashOf(bearer)
	find := func(m *memory) *auth.Principal {
		if e := m.find(h); e != nil {
			return e.principal
		}
		return nil
	}
	if s.o.Tokens == nil || !isJWTShaped(bearer) {
		return find, nil
	}
	if _, err := s.find(find); err == nil { // a key of a file may look like anything
		return find, nil
	}
	verified, err := s.o.Tokens.Verify(ctx, bearer)
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		return nil, auth.ErrUnavailable
	case err != nil:
		return nil, auth.ErrInvalidCredential
	}
	return subjectFinder(verified)
}

func subjectFinder(s auth.Subject) (finder, error) {
	if s.Name == "" {
		return nil, auth.ErrInvalidCredential
	}
	return func(m *memory) *auth.Principal { return m.principal(s) }, nil
}

// isJWTShaped reports whether a text has the form of a signed token: three parts
// with dots between them, the first of which is an object of JSON in base64url.
func isJWTShaped(text string) bool {
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}
