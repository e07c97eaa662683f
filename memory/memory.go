// Package memory keeps JSON values under keys for claims, tenants and workloads.
//
// It promises that a value is read only through a claim that it belongs to, and
// only while that claim is in use; that a put or a delete with a version succeeds
// only if the value has that version, so that of several writers one wins; that a
// level never has more keys or bytes than its quota; and that values end with
// what they belong to. Values are the data of tenants: no error, event or log
// record of this package contains one, or a key.
//
// The rows are the store's. What a request may look like is in this file; who may
// make one is decided in the transaction that serves it.
package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hostler/hostler/internal/jsonvalue"
)

// Level is whom a value belongs to, and so when it ends.
type Level string

// The levels.
const (
	// Claim ends with the claim. It is the default.
	Claim Level = "claim"
	// Tenant is shared by the claims of a tenant on a workload. It ends
	// TenantRetention after the last of them, and with the workload.
	Tenant Level = "tenant"
	// Workload is shared by all claims on a workload whose file says
	// memory.shared. It ends with the workload, and UnsharedRetention after the
	// file no longer has that.
	Workload Level = "workload"
)

// Levels returns all levels.
func Levels() []Level { return []Level{Claim, Tenant, Workload} }

// How long values are kept that no claim can read.
const (
	TenantRetention   = 24 * time.Hour // after the end of a tenant's last claim
	UnsharedRetention = 24 * time.Hour // after memory.shared was removed from the file
)

// RequestRetention is how long a change is recognised when it is requested again:
// longer than a program repeats a request.
const RequestRetention = 5 * time.Minute

// levelNames are the names of levels in requests.
var levelNames = map[string]Level{
	"": Claim, "claim": Claim, "agent": Claim,
	"tenant": Tenant, "swarm": Tenant,
	"workload": Workload, "project": Workload,
}

// ParseLevel returns the level with a name: its own or an alias. The empty name
// is Claim.
func ParseLevel(name string) (Level, error) {
	level, ok := levelNames[name]
	if !ok {
		return "", fmt.Errorf("%w: the level is not claim, tenant or workload", ErrInvalid)
	}
	return level, nil
}

// Bounds of keys and values.
const (
	MaxKey   = 200      // characters
	MaxValue = 64 << 10 // bytes, as given
	MaxPage  = 1000     // items
)

// Quota bounds what a level of one claim, tenant or workload holds.
type Quota struct {
	Keys  int64
	Bytes int64 // of keys and values
}

// quotas are the quotas of the levels.
var quotas = map[Level]Quota{
	Claim:    {Keys: 1000, Bytes: 4 << 20},
	Tenant:   {Keys: 1000, Bytes: 4 << 20},
	Workload: {Keys: 10000, Bytes: 16 << 20},
}

// Item describes a value.
type Item struct {
	Key   string `json:"key"`
	Level Level  `json:"level" enum:"claim,tenant,workload"`
	// Version grows with each put of the level, so that no two values of a key
	// have the same one.
	Version   int64     `json:"version" doc:"It grows with each put; two values of a key never have the same version."`
	Bytes     int64     `json:"bytes" doc:"The size of the value."`
	UpdatedAt time.Time `json:"updated_at"`
}

// Value is a value with its description.
type Value struct {
	Item
	Value json.RawMessage `json:"value"`
}

// Written is the result of a put.
type Written struct {
	Item
	Created bool `json:"created" doc:"There was no value before."`
}

// Deleted is the result of a delete.
type Deleted struct {
	Deleted bool `json:"deleted" doc:"There was a value."`
}

// Page is one part of a list, ordered by the bytes of the keys.
type Page struct {
	Items []Item `json:"items"`
	Next  string `json:"next" doc:"The value of after for the next page; empty at the end."`
}

// Usage is what is held at a level.
type Usage struct {
	Scopes int64 // claims, tenants of workloads, or workloads
	Keys   int64
	Bytes  int64
}

// AnyVersion as the version of a condition matches every value that exists. The
// version 0 matches when there is none.
const AnyVersion int64 = -1

// Errors of requests.
var (
	// ErrInvalid indicates that a key, a level or a value is not valid.
	ErrInvalid = errors.New("invalid memory request")
	// ErrOtherRequest indicates that the ID of a request is that of another one.
	ErrOtherRequest = fmt.Errorf("%w: its ID is that of another request", ErrInvalid)
	// ErrTooLarge indicates that a value is larger than MaxValue.
	ErrTooLarge = errors.New("the value is larger than 64 KiB")
	// ErrNotFound indicates that there is no value under the key.
	ErrNotFound = errors.New("no value under this key")
	// ErrNotShared indicates that the workload's file does not say
	// memory.shared.
	ErrNotShared = errors.New("the workload's memory is not shared")
	// ErrRate indicates that a claim puts and deletes too often.
	ErrRate = errors.New("the claim writes to its memory too often")
)

// VersionError indicates that a value does not have the version that a request
// names.
type VersionError struct {
	Version int64 // of the value; 0 when there is none
}

// Error is error.Error.
func (e *VersionError) Error() string {
	if e.Version == 0 {
		return "there is no value under this key"
	}
	return fmt.Sprintf("the value has version %d", e.Version)
}

// CheckVersion returns a VersionError unless a value of the version, 0 for none,
// meets the condition. There is no condition if it is nil.
func CheckVersion(condition *int64, version int64) error {
	switch {
	case condition == nil, *condition == version, *condition == AnyVersion && version != 0:
		return nil
	}
	return &VersionError{version}
}

// QuotaError indicates that a value does not fit into the quota of its level.
type QuotaError struct {
	Level Level
	Quota Quota
}

// Error is error.Error.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("the memory of this %s is full: it has at most %d keys and %d bytes", e.Level, e.Quota.Keys, e.Quota.Bytes)
}

// Check returns a QuotaError if a level that would hold so much exceeds the
// quota. One that does not grow is never refused.
func (q Quota) Check(level Level, before, after Usage) error {
	if after.Keys > q.Keys && after.Keys > before.Keys || after.Bytes > q.Bytes && after.Bytes > before.Bytes {
		return &QuotaError{level, q}
	}
	return nil
}

// checkKey returns an error unless text is a valid key. A key is also the end of
// the path of a URL, so that what programs between client and server may change
// in a path is refused: empty segments, "." and "..".
func checkKey(text string) error {
	if err := checkText("the key", text); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(text, "/") {
		switch segment {
		case "":
			return fmt.Errorf("%w: the key is empty, or has an empty part at a slash", ErrInvalid)
		case ".", "..":
			return fmt.Errorf("%w: a part of the key is a dot or two", ErrInvalid)
		}
	}
	return nil
}

// checkText returns an error unless every database can compare text with keys.
func checkText(what, text string) error {
	switch {
	case len(text) > MaxKey*utf8.UTFMax || utf8.RuneCountInString(text) > MaxKey:
		return fmt.Errorf("%w: %s is longer than %d characters", ErrInvalid, what, MaxKey)
	case !utf8.ValidString(text):
		return fmt.Errorf("%w: %s is not UTF-8", ErrInvalid, what)
	case strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%w: %s has a control character", ErrInvalid, what)
	}
	return nil
}

// compactValue returns a valid value without insignificant space.
func compactValue(value []byte) (json.RawMessage, error) {
	compact, err := jsonvalue.Compact(value, MaxValue)
	switch {
	case errors.Is(err, jsonvalue.ErrTooLong):
		return nil, ErrTooLarge
	case err != nil:
		return nil, fmt.Errorf("%w: the value %w", ErrInvalid, err)
	case compact == nil:
		return nil, fmt.Errorf("%w: the value is not JSON", ErrInvalid)
	}
	return compact, nil
}
