package credential

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

// CreateKey adds a key. Its secret is returned here only. Errors: ErrInvalid,
// ErrExists, ErrFirst.
func (s *Service) CreateKey(ctx context.Context, n NewKey) (Key, string, error) {
	return s.addKey(ctx, n, s.condition(ctx, isOperators(n.Grants)))
}

// condition returns what must hold for a credential to be added, by whether it makes an
// operator. A client without a credential makes the first one only: its server may not
// know yet that another one has made that.
func (s *Service) condition(ctx context.Context, makesOperator bool) Condition {
	if p := auth.From(ctx); p != nil && makesOperator && originOf(p) == origin(user{isLocal: true}) {
		return NoOperatorExists
	}
	if makesOperator || s.hasFileOperator() {
		return Always
	}
	return OperatorExists
}

// Bootstrap adds an operator's key where no credential is an operator's, else it
// returns ErrInvalid.
func (s *Service) Bootstrap(ctx context.Context, name string) (Key, string, error) {
	if s.hasFileOperator() {
		return Key{}, "", invalid("a followed file has an operator's credential")
	}
	return s.addKey(ctx, NewKey{Name: name, Grants: []auth.Grant{{Role: auth.Operator}}}, NoOperatorExists)
}

func isOperators(grants []auth.Grant) bool {
	return slices.ContainsFunc(grants, func(g auth.Grant) bool { return g.Role == auth.Operator })
}

func (s *Service) hasFileOperator() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.memory.hasFileOperator()
}

func (s *Service) addKey(ctx context.Context, n NewKey, c Condition) (Key, string, error) {
	if err := checkName(n.Name); err != nil {
		return Key{}, "", err
	}
	if err := checkGrants(n.Grants); err != nil {
		return Key{}, "", err
	}
	if n.ExpiresIn < 0 || n.ExpiresIn > maxKeyTTL {
		return Key{}, "", invalid("a key expires after 0, which is never, to %s", maxKeyTTL)
	}
	if s.isFileKey(n.Name) {
		return Key{}, "", ErrExists
	}
	secret := newSecret()
	k := Record{Hash: hashOf(secret).String(), Key: Key{
		Name: n.Name, Grants: n.Grants, Prefix: secret[:len(keyPrefix)+shownDigits], Source: Database,
		CreatedBy: activity.ActorOf(ctx).Name,
	}}
	data := activity.KeyCreatedData{Key: n.Name, Prefix: k.Prefix}
	if n.ExpiresIn > 0 {
		k.ExpiresAt = new(time.Now().UTC().Add(n.ExpiresIn))
		data.ExpiresAt = k.ExpiresAt
	}
	for _, role := range (&auth.Principal{Grants: n.Grants}).Roles() {
		data.Roles = append(data.Roles, string(role))
	}
	k, err := s.o.Store.AddKey(ctx, k, c, s.event(ctx, activity.KeyCreated, "key "+n.Name+" created", data))
	if err != nil {
		return Key{}, "", err
	}
	if err := s.applyKey(k); err != nil {
		return Key{}, "", err
	}
	return k.Key, secret, nil
}

// applyKey has a key of the database in memory.
func (s *Service) applyKey(k Record) error {
	e, err := newEntry(k)
	if err == nil {
		s.change(func(m *memory) { m.set(e) })
	}
	return err
}

func (s *Service) isFileKey(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.memory.fileNames[name]) > 0
}

// Keys returns the keys in the order of their names, with those of the file.
func (s *Service) Keys(ctx context.Context) ([]Key, error) {
	keys, err := s.o.Store.StoredKeys(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	for i := range keys {
		if e := s.memory.stored[keys[i].Name]; e != nil {
			keys[i].LastUsedAt = later(keys[i].LastUsedAt, e.lastUse())
		}
	}
	for _, e := range s.memory.file {
		k := e.Key
		k.LastUsedAt = e.lastUse()
		keys = append(keys, k)
	}
	s.mu.RUnlock()
	slices.SortStableFunc(keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return keys, nil
}

// later returns the later of two times that may be missing.
func later(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.After(*a) {
		return b
	}
	return a
}

// Key returns a key, or ErrNotFound.
func (s *Service) Key(ctx context.Context, name string) (Key, error) {
	keys, err := s.Keys(ctx)
	if err != nil {
		return Key{}, err
	}
	if i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == name }); i >= 0 {
		return keys[i], nil
	}
	return Key{}, ErrNotFound
}

// RevokeKey has a key refused from its return on, by other servers within two
// seconds. One that is revoked remains so. Errors: ErrNotFound, ErrFromFile.
func (s *Service) RevokeKey(ctx context.Context, name string) (Key, error) {
	s.mu.RLock()
	isFileKey, isStored := len(s.memory.fileNames[name]) > 0, s.memory.stored[name] != nil
	s.mu.RUnlock()
	if isFileKey && !isStored {
		return Key{}, ErrFromFile
	}
	if namePattern.FindString(name) == "" {
		return Key{}, ErrNotFound
	}
	k, err := s.o.Store.RevokeKey(ctx, name, s.event(ctx, activity.KeyRevoked, "key "+name+" revoked", activity.KeyRevokedData{Key: name}))
	if err != nil {
		return Key{}, err
	}
	return k.Key, s.applyKey(k)
}
