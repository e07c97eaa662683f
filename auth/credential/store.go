package credential

import (
	"context"
	"time"

	"github.com/hostler/hostler/activity"
)

// Store keeps keys and bindings in a database. Each change is one transaction with
// its events, and has a generation: a number that grows with each, and is not that of
// another change which was lost, by a failover or a restore.
type Store interface {
	KeyStore
	BindingStore
	// IsShared reports whether other servers change the database.
	IsShared() bool
	// CredentialGeneration returns the generation of the last change: 0 if there was
	// none.
	CredentialGeneration(ctx context.Context) (int64, error)
	// Credentials returns, of one moment, the keys whose generation is later than
	// after, all bindings, and the generation.
	Credentials(ctx context.Context, after int64) (Credentials, error)
	// RecordCredential records events that change no record.
	RecordCredential(ctx context.Context, events ...activity.Event) error
}

// KeyStore is the part of a Store for keys.
type KeyStore interface {
	// AddKey adds a key. ErrExists reports that another has its name, ErrInvalid that
	// there are MaxKeys, or the condition's error that it
	// does not hold.
	AddKey(ctx context.Context, k Record, c Condition, events ...activity.Event) (Record, error)
	// RevokeKey records that a key is revoked. One that is revoked remains as it is,
	// without an event. ErrNotFound reports that there is no such key.
	RevokeKey(ctx context.Context, name string, events ...activity.Event) (Record, error)
	// StoredKeys returns the keys in the order of their names.
	StoredKeys(ctx context.Context) ([]Key, error)
	// RecordKeyUses records when keys were last used, by their names.
	RecordKeyUses(ctx context.Context, uses map[string]time.Time) error
	// PruneKeys removes the keys that were revoked or have expired before a time.
	PruneKeys(ctx context.Context, before time.Time) error
}

// BindingStore is the part of a Store for bindings.
type BindingStore interface {
	// PutBinding adds or replaces a binding. ErrInvalid reports that there are
	// MaxBindings, or the condition's error that it does not hold.
	PutBinding(ctx context.Context, b Binding, c Condition, events ...activity.Event) (created bool, err error)
	// DeleteBinding removes a binding, or returns ErrNotFound.
	DeleteBinding(ctx context.Context, name string, events ...activity.Event) error
}

// Record is a key as it is stored.
type Record struct {
	Key
	Hash       string // SHA-256 of the secret, in hexadecimal
	Generation int64
}

// Credentials are keys and bindings of one moment.
type Credentials struct {
	Generation int64
	Keys       []Record // without their last uses
	Count      int      // of all keys
	Bindings   []Binding
}

// Condition is what must hold for a credential to be added.
type Condition int

// The conditions.
const (
	// Always is no condition.
	Always Condition = iota
	// OperatorExists requires a live operator's key or binding, else ErrFirst.
	OperatorExists
	// NoOperatorExists requires that there is neither, else ErrInvalid.
	NoOperatorExists
)

// Limits of what is stored.
const (
	MaxKeys     = 100_000
	MaxBindings = 1000
)
