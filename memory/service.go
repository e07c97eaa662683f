package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/workqueue"
)

// Store keeps the values. Each method decides in one transaction, or in one
// snapshot, whether the claim may use the level: it is active, or one of its hooks
// runs at a point before or after that. Otherwise the error is that of package
// claim for a claim that is not active, or does not exist, or ErrNotShared.
type Store interface {
	// ChangeMemory puts or deletes a value. It returns a VersionError or a
	// QuotaError, and then has changed nothing. A change with the Request of one of
	// the last RequestRetention changes nothing: it has the result of that one, or is
	// ErrOtherRequest if it has another Digest.
	ChangeMemory(ctx context.Context, c Change) (Changed, error)
	// MemoryValue returns a value, or ErrNotFound.
	MemoryValue(ctx context.Context, claim string, level Level, key string) (Value, error)
	// MemoryItems lists the keys with a prefix that are greater than after.
	MemoryItems(ctx context.Context, claim string, level Level, prefix, after string, limit int) ([]Item, error)
	// EndMemory ends what is due: it cannot be read any more.
	EndMemory(ctx context.Context) error
	// NextMemoryEnd returns when something is due next that was not due at a time, if no
	// claim ends and no workload changes before that; zero for never.
	NextMemoryEnd(ctx context.Context, after time.Time) (time.Time, error)
	// RemoveMemory removes some of the values that have ended, and reports whether
	// there are more. It may be interrupted at any time.
	RemoveMemory(ctx context.Context) (more bool, err error)
}

// Change is a put or a delete.
type Change struct {
	Claim     string
	Level     Level
	Key       string
	Value     json.RawMessage // nil to delete
	IfVersion *int64          // see CheckVersion
	Quota     Quota
	// Request is the same for a request that is sent again because its answer was
	// lost. "" if it has none.
	Request string
}

// Digest identifies what is changed, and how: two changes with the same Request are
// the same if they have the same Digest.
func (c Change) Digest() string {
	text, _ := json.Marshal(struct { // what is not JSON is refused before
		Level     Level
		Key       string
		Deletes   bool
		Value     json.RawMessage
		IfVersion *int64
	}{c.Level, c.Key, c.Value == nil, c.Value, c.IfVersion})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Changed is the result of a change.
type Changed struct {
	Item    Item // of a put
	Existed bool // whether there was a value before
}

// Service serves the requests of claims. The id of the claim comes from the
// caller, which knows who asks; the rest of a request may come from a tenant.
type Service struct {
	store   Store
	log     *slog.Logger
	limiter limiter
	sweeps  *workqueue.Loop
}

// New returns a service on a store.
func New(store Store, log *slog.Logger) *Service {
	s := &Service{store: store, log: log}
	s.sweeps = workqueue.NewLoop("removing ended memory", s.sweep, sweepRetries, log)
	return s
}

// PutRequest is a request to put a value.
type PutRequest struct {
	Level     string          `json:"level,omitempty"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	IfVersion *int64          `json:"if_version,omitempty"` // see CheckVersion
	Request   string          `json:"-"`                    // see Change
}

// Put adds or replaces a value. Another put or delete with the same version fails
// with a VersionError.
func (s *Service) Put(ctx context.Context, claim string, r PutRequest) (Written, error) {
	c, err := newChange(claim, r.Level, r.Key, r.IfVersion)
	if err != nil {
		return Written{}, err
	}
	if c.Value, err = compactValue(r.Value); err != nil {
		return Written{}, err
	}
	c.Request = r.Request
	changed, err := s.change(ctx, c)
	return Written{Item: changed.Item, Created: !changed.Existed}, err
}

// DeleteRequest is a request to delete a value.
type DeleteRequest struct {
	Level     string `json:"level,omitempty"`
	Key       string `json:"key"`
	IfVersion *int64 `json:"if_version,omitempty"` // see CheckVersion
	Request   string `json:"-"`                    // see Change
}

// Delete deletes a value. Without a version it succeeds if there is none.
func (s *Service) Delete(ctx context.Context, claim string, r DeleteRequest) (Deleted, error) {
	c, err := newChange(claim, r.Level, r.Key, r.IfVersion)
	if err != nil {
		return Deleted{}, err
	}
	c.Request = r.Request
	changed, err := s.change(ctx, c)
	return Deleted{changed.Existed}, err
}

// newChange returns a change without its value.
func newChange(claim, levelName, key string, ifVersion *int64) (Change, error) {
	level, err := ParseLevel(levelName)
	if err != nil {
		return Change{}, err
	}
	if ifVersion != nil && *ifVersion < AnyVersion {
		return Change{}, fmt.Errorf("%w: a version is not negative", ErrInvalid)
	}
	return Change{Claim: claim, Level: level, Key: key, IfVersion: ifVersion, Quota: quotas[level]}, checkKey(key)
}

func (s *Service) change(ctx context.Context, c Change) (Changed, error) {
	if !s.limiter.allow(c.Claim, time.Now()) {
		return Changed{}, ErrRate
	}
	changed, err := s.store.ChangeMemory(ctx, c)
	if err != nil {
		return Changed{}, fmt.Errorf("change the memory of claim %s: %w", c.Claim, err)
	}
	return changed, nil
}

// GetRequest is a request for a value.
type GetRequest struct {
	Level string `json:"level,omitempty"`
	Key   string `json:"key"`
}

// Get returns a value, or ErrNotFound.
func (s *Service) Get(ctx context.Context, claim string, r GetRequest) (Value, error) {
	level, err := ParseLevel(r.Level)
	if err == nil {
		err = checkKey(r.Key)
	}
	if err != nil {
		return Value{}, err
	}
	v, err := s.store.MemoryValue(ctx, claim, level, r.Key)
	if err != nil {
		return Value{}, fmt.Errorf("read the memory of claim %s: %w", claim, err)
	}
	return v, nil
}

// ListRequest is a request for the keys of a level.
type ListRequest struct {
	Level  string `json:"level,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	After  string `json:"after,omitempty"` // keys after this one
	Limit  int    `json:"limit,omitempty"` // at most MaxPage, which is the default
}

// List returns a page of the keys with a prefix, without their values.
func (s *Service) List(ctx context.Context, claim string, r ListRequest) (Page, error) {
	level, err := ParseLevel(r.Level)
	if err != nil {
		return Page{}, err
	}
	for what, text := range map[string]string{"the prefix": r.Prefix, "after": r.After} {
		if err := checkText(what, text); err != nil {
			return Page{}, err
		}
	}
	limit := r.Limit
	if limit < 1 || limit > MaxPage {
		limit = MaxPage
	}
	items, err := s.store.MemoryItems(ctx, claim, level, r.Prefix, r.After, limit+1)
	if err != nil {
		return Page{}, fmt.Errorf("list the memory of claim %s: %w", claim, err)
	}
	page := Page{Items: items}
	if page.Items == nil {
		page.Items = []Item{}
	}
	if len(items) > limit {
		page.Items, page.Next = items[:limit], items[limit-1].Key
	}
	return page, nil
}

// sweepDelay is how long after a change values that have ended are removed, and the time
// between attempts. They cannot be read in the meantime.
const sweepDelay = time.Minute

// sweepRetries is how a sweep is repeated while the database does not answer.
var sweepRetries = backoff.Policy{Min: sweepDelay, Max: sweepDelay}

// Run removes values that have ended, until ctx ends. One server runs it; two do no
// harm.
func (s *Service) Run(ctx context.Context) error { return s.sweeps.Run(ctx) }

// Changed is called after events: a claim may have ended, or a workload changed.
func (s *Service) Changed() { s.sweeps.WakeAfter(sweepDelay) }

// sweep removes all that has ended, and returns when the next value ends.
func (s *Service) sweep(ctx context.Context) (next time.Time, err error) {
	began := time.Now() // what becomes due during the sweep is not ended by it
	err = s.store.EndMemory(ctx)
	for more := true; more && err == nil && ctx.Err() == nil; {
		more, err = s.store.RemoveMemory(ctx)
	}
	if err == nil {
		next, err = s.store.NextMemoryEnd(ctx, began)
	}
	return next, err
}
