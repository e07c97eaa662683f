// Package quota limits what tenants, keys and workloads may use: live claims, claims
// a minute, bytes of state, and requests a second.
//
// It promises that a limit holds for all servers together, except for requests,
// which each server counts for itself. Claims are counted from their records, in
// the transaction that adds one (package store): a server that is killed leaves
// nothing to repair. What a limit does not name is unlimited.
package quota

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Level is whom a quota is for.
type Level string

// The levels.
const (
	Tenant   Level = "tenant"
	Key      Level = "key" // who claims or sends requests, with a credential
	Workload Level = "workload"
)

// Levels returns the levels, in the order in which they are locked.
func Levels() []Level { return []Level{Tenant, Key, Workload} }

// Kind is what a quota limits.
type Kind string

// The kinds, as in JSON.
const (
	Claims   Kind = "claims"              // that are live
	Rate     Kind = "claims_per_minute"   // in the last minute
	State    Kind = "state_bytes"         // that current snapshots occupy
	Requests Kind = "requests_per_second" // of one server
)

// kinds describe the kinds, in the order of the documentation.
var kinds = []struct {
	kind  Kind
	part  string // in the text of limits
	title string // in errors
	field func(*Limits) **int64
}{
	{Claims, "claims", "live claims", func(l *Limits) **int64 { return &l.Claims }},
	{Rate, "claims-per-minute", "claims a minute", func(l *Limits) **int64 { return &l.ClaimsPerMinute }},
	{State, "state", "bytes of state", func(l *Limits) **int64 { return &l.State }},
	{Requests, "requests-per-second", "requests a second", func(l *Limits) **int64 { return &l.RequestsPerSecond }},
}

// Window is the time in which claims a minute are counted.
const Window = time.Minute

// Unlimited is the value of a limit that is none, where a default would apply.
const Unlimited = -1

// Limits are the limits of a scope. One that is nil is not set.
type Limits struct {
	Claims            *int64 `json:"claims,omitempty" minimum:"-1" doc:"Live claims: pending, active, releasing or release_failed. -1: no limit."`
	ClaimsPerMinute   *int64 `json:"claims_per_minute,omitempty" minimum:"-1" doc:"Claims that were added in the last minute. -1: no limit."`
	State             *int64 `json:"state_bytes,omitempty" minimum:"-1" doc:"Bytes that the current snapshots occupy in their sinks. -1: no limit."`
	RequestsPerSecond *int64 `json:"requests_per_second,omitempty" minimum:"-1" doc:"Requests that one server answers; twice as many at once. Not for workloads. -1: no limit."`
}

// Of returns the limit of a kind, and whether there is one.
func (l Limits) Of(kind Kind) (limit int64, ok bool) {
	for _, k := range kinds {
		if k.kind == kind {
			value := *k.field(&l)
			if value == nil || *value < 0 {
				return 0, false
			}
			return *value, true
		}
	}
	return 0, false
}

// Over returns the limits with those of defaults where they are not set.
func (l Limits) Over(defaults Limits) Limits {
	for _, k := range kinds {
		if mine := k.field(&l); *mine == nil {
			*mine = *k.field(&defaults)
		}
	}
	return l
}

// Defaults are the limits by level of all that have none of their own.
type Defaults map[Level]Limits

// Scope is whom a limit is for.
type Scope struct {
	Level Level  `json:"level" enum:"tenant,key,workload"`
	Name  string `json:"name" doc:"Of the tenant or the workload; of a key, key:NAME, and of another credential its actor in events."`
}

// maxName bounds a name: that of an actor.
const maxName = 400

// ErrInvalid is returned for a scope or limits that cannot be.
var ErrInvalid = errors.New("invalid quota")

// NewScope returns the scope of a level and a name. The name of a key may be written
// without "key:".
func NewScope(level Level, name string) (Scope, error) {
	s := Scope{level, name}
	switch {
	case !slices.Contains(Levels(), level):
		return s, fmt.Errorf("%w: level %.40q is not tenant, key or workload", ErrInvalid, string(level))
	case name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return s, fmt.Errorf("%w: a name has 1 to %d bytes of text", ErrInvalid, maxName)
	}
	if level == Key && !hasPrefix(name) {
		s.Name = "key:" + name
	}
	return s, nil
}

// credentials are the prefixes of the actors that have quotas.
var credentials = []string{"key:", "oidc:", "cert:", "unix:"}

func hasPrefix(actor string) bool {
	return slices.ContainsFunc(credentials, func(prefix string) bool { return strings.HasPrefix(actor, prefix) })
}

// KeyOf returns the name of the quota that an actor uses: its own, or that of who
// made its token. It is empty for an actor without a credential.
func KeyOf(actor string) string {
	for {
		token, ok := strings.CutPrefix(actor, "token:")
		if !ok {
			break
		}
		actor = token
		// A tenant has no #, and an issuer's subject may.
		if i := strings.LastIndexByte(token, '#'); i >= 0 {
			actor = token[:i]
		}
		if !hasPrefix(actor) && !strings.HasPrefix(actor, "token:") {
			actor = "key:" + actor
		}
	}
	if !hasPrefix(actor) {
		return ""
	}
	return actor
}

// Check returns an error unless the scope may have the limits.
func (s Scope) Check(l Limits) error {
	for _, k := range kinds {
		value := *k.field(&l)
		switch {
		case value != nil && *value < Unlimited:
			return fmt.Errorf("%w: %s: %d is less than -1, which means no limit", ErrInvalid, k.kind, *value)
		case value != nil && *value > maxRate && k.kind != State:
			return fmt.Errorf("%w: %s: %d is more than %d", ErrInvalid, k.kind, *value, maxRate)
		}
	}
	if s.Level == Workload && l.RequestsPerSecond != nil {
		return fmt.Errorf("%w: %s: a workload has no limit of requests", ErrInvalid, Requests)
	}
	return nil
}

// maxRate bounds all limits but those of bytes.
const maxRate = 1_000_000_000

// Override are the limits of one scope, which win over the defaults.
type Override struct {
	Scope
	Limits    Limits    `json:"limits"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Usage is what a scope uses.
type Usage struct {
	Claims          int64 `json:"claims" doc:"Its live claims."`
	ClaimsPerMinute int64 `json:"claims_per_minute" doc:"Its claims of the last minute."`
	State           int64 `json:"state_bytes" doc:"Bytes that its current snapshots occupy."`
}

// Of returns the usage of a kind.
func (u Usage) Of(kind Kind) int64 {
	return map[Kind]int64{Claims: u.Claims, Rate: u.ClaimsPerMinute, State: u.State}[kind]
}

// ExceededError refuses what would exceed a quota.
type ExceededError struct {
	Scope
	Kind       Kind
	Limit      int64
	Current    int64         // unknown of requests
	RetryAfter time.Duration // when to try again
}

// Quota names the quota: "tenant acme: live claims".
func (e *ExceededError) Quota() string {
	for _, k := range kinds {
		if k.kind == e.Kind {
			return fmt.Sprintf("%s %s: %s", e.Level, e.Name, k.title)
		}
	}
	return fmt.Sprintf("%s %s", e.Level, e.Name)
}

func (e *ExceededError) Error() string {
	if e.Kind == Requests {
		return fmt.Sprintf("quota of %s: at most %d", e.Quota(), e.Limit)
	}
	return fmt.Sprintf("quota of %s: %d of at most %d", e.Quota(), e.Current, e.Limit)
}

// Retries of what depends on others: a release, or an operator.
const (
	retryClaims = 5 * time.Second
	retryState  = time.Minute
)

// AdmitState returns an error if states of that many bytes exceed the limits.
func (s Scope) AdmitState(l Limits, bytes int64) error {
	if limit, ok := l.Of(State); ok && bytes > limit {
		return &ExceededError{Scope: s, Kind: State, Limit: limit, Current: bytes, RetryAfter: retryState}
	}
	return nil
}

// Admit returns an error if one more claim would exceed the limits. oldest returns
// when the n-th last claim was added, for n from 1.
func (s Scope) Admit(l Limits, u Usage, now time.Time, nth func(n int64) (time.Time, error)) error {
	exceeded := &ExceededError{Scope: s}
	if limit, ok := l.Of(Claims); ok && u.Claims >= limit {
		exceeded.Kind, exceeded.Limit, exceeded.Current, exceeded.RetryAfter = Claims, limit, u.Claims, retryClaims
		return exceeded
	}
	if err := s.AdmitState(l, u.State); err != nil {
		return err
	}
	limit, ok := l.Of(Rate)
	if !ok || u.ClaimsPerMinute < limit {
		return nil
	}
	exceeded.Kind, exceeded.Limit, exceeded.Current, exceeded.RetryAfter = Rate, limit, u.ClaimsPerMinute, Window
	if limit == 0 {
		return exceeded
	}
	at, err := nth(limit)
	if err != nil {
		return err
	}
	exceeded.RetryAfter = min(max(at.Add(Window).Sub(now), time.Second), Window)
	return exceeded
}
