// Package credential keeps the keys, tokens and bindings of a server, and knows the
// principal of each.
//
// It promises that a credential acts with its own grants only, that no secret is
// kept (only hashes are), and that what was revoked is refused at once, by other
// servers on the same database within two seconds: one that cannot read the database
// for longer refuses what is kept there. A server without any credential is open to
// clients of its machine. One that has ever had a key or a binding in its database is
// not open again when all are gone; Bootstrap makes an operator's key then.
//
// Authentication is a lookup in memory, by the hash of a key. The database is read
// when its generation has changed, files when they have. How many invalid credentials
// a client may send is left to the caller.
package credential

import (
	"errors"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

// Errors of this package.
var (
	// ErrNotFound reports that there is no such key or binding.
	ErrNotFound = errors.New("no such credential")
	// ErrExists reports that another key has the name. One that was revoked or has
	// expired has it for the time that its record is kept.
	ErrExists = errors.New("a key has that name")
	// ErrFirst reports that the first credential would not be an operator's: the
	// server would accept no request that could make another one.
	ErrFirst = errors.New("the first credential must be an operator's")
	// ErrInvalid reports a request that cannot be carried out as it is.
	ErrInvalid = errors.New("invalid credential request")
	// ErrFromFile reports a change of a key or binding that a followed file has.
	ErrFromFile = errors.New("a file has the credential; change the file")
)

// Source is where a key or binding is kept.
type Source string

// The sources.
const (
	Database Source = "database"
	File     Source = "file"
)

// Key is a key without its secret.
type Key struct {
	Name       string       `json:"name"`
	Grants     []auth.Grant `json:"grants"`
	Prefix     string       `json:"prefix,omitempty" doc:"The beginning of the key, to recognise it."`
	Source     Source       `json:"source" doc:"database or file."`
	CreatedAt  *time.Time   `json:"created_at,omitempty"`
	CreatedBy  string       `json:"created_by,omitempty" doc:"The actor who created it."`
	ExpiresAt  *time.Time   `json:"expires_at,omitempty"`
	RevokedAt  *time.Time   `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time   `json:"last_used_at,omitempty" doc:"To the minute."`
}

// NewKey is the request for a key.
type NewKey struct {
	Name      string
	Grants    []auth.Grant
	ExpiresIn time.Duration // 0: never
}

// NewToken is the request for a token: a key that is not stored, and expires soon.
type NewToken struct {
	Tenant    string
	Workloads []activity.Pattern // none: all that its maker may use
	Claim     string             // limits it to one claim
	ExpiresIn time.Duration
}

// Limits of tokens.
const (
	DefaultTokenTTL = 15 * time.Minute
	MaxTokenTTL     = time.Hour
)

// Token is a token. It is shown once.
type Token struct {
	Token     string    `json:"token"`
	Tenant    string    `json:"tenant"`
	Claim     string    `json:"claim,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Binding gives grants to subjects: holders of tokens of other issuers, of
// certificates, and users of this machine.
type Binding struct {
	Name string           `json:"name"`
	Kind auth.SubjectKind `json:"kind" enum:"oidc,cert,unix"`
	// Issuer is that of tokens, exactly.
	Issuer string `json:"issuer,omitempty"`
	// Subject matches the subject's name; the zero value matches every one.
	Subject *activity.Pattern `json:"subject,omitempty"`
	// Claims are claims of the token that must each have a value that matches.
	Claims map[string]activity.Pattern `json:"claims,omitempty"`
	Role   auth.Role                   `json:"role"`
	// Tenants and Workloads are those of the grant.
	Tenants   []activity.Pattern `json:"tenants,omitempty"`
	Workloads []activity.Pattern `json:"workloads,omitempty"`
	// TenantClaim is a claim of the token whose values are tenants of the grant, each
	// exactly.
	TenantClaim string `json:"tenant_claim,omitempty"`
	Source      Source `json:"source" doc:"database or file."`
}
