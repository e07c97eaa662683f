package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/snapshot/statekey"
	"github.com/hostler/hostler/workload"
)

// Errors of this package. Errors of the container are those of package runtime.
var (
	// ErrStale indicates that a newer claim's snapshot already exists: this one
	// must not be stored. A retry does not help.
	ErrStale = errors.New("a newer claim has already uploaded its state")
	// ErrConflict indicates that the tenant's snapshots were changed
	// concurrently. Nothing is lost: retry.
	ErrConflict = errors.New("the snapshots were changed concurrently")
	// ErrTooLarge indicates that the state exceeds the workload's max_size or
	// max_files.
	ErrTooLarge = errors.New("the state is too large")
	// ErrCorrupt indicates that an object in the sink is not what was stored.
	ErrCorrupt = errors.New("the snapshot is damaged")
	// ErrFormat indicates that the state has a format which this server does not
	// know. Nothing of it was changed.
	ErrFormat = errors.New("the state has an unknown format")
	// ErrUnknownKey indicates that the state is encrypted, and that this server does
	// not have the key.
	ErrUnknownKey = statekey.ErrUnknownKey
	// ErrNoSnapshot indicates that there is no such snapshot.
	ErrNoSnapshot = errors.New("no such snapshot")
	// ErrReplaced indicates that a snapshot was read for longer than the grace after
	// newer ones had replaced it. It is ErrNoSnapshot.
	ErrReplaced = fmt.Errorf("%w any more: newer ones replaced it while it was read, and what only it needs was removed", ErrNoSnapshot)
	// ErrInvalidOwner indicates that the name of a tenant or workload is
	// invalid in a sink.
	ErrInvalidOwner = errors.New("invalid tenant or workload name")
)

// Owner identifies the owner of snapshots. Two owners never share an object.
type Owner struct {
	Workload string
	Tenant   string
}

// Origin describes the source of a snapshot.
type Origin struct {
	Owner
	Revision  string
	Claim     string
	Container string
	// Fence orders claims: that of a tenant's later claim is greater. An upload
	// with a smaller one than the sink has seen is ErrStale.
	Fence int64
	// Reason is for display: release, interval, request.
	Reason string
	// Progress, if set, is called with the number of bytes that have been sent
	// so far, from one goroutine at a time. It must return quickly.
	Progress func(sent int64)
	// Verify, if set, is called right before the upload becomes current, also an
	// unchanged one that is recorded. Its error ends the upload without a change.
	Verify func(context.Context) error
}

// Snapshot is the state of a tenant at one time.
type Snapshot struct {
	ID           string    `json:"id"`
	Time         time.Time `json:"time"`
	Revision     string    `json:"revision,omitempty"`
	Claim        string    `json:"claim,omitempty"`
	Container    string    `json:"container,omitempty"`
	Reason       string    `json:"reason,omitempty"`
	RestoredFrom string    `json:"restored_from,omitempty"`
	Parts        []Part    `json:"parts"`
}

// Part is the stored state of one mapping.
type Part struct {
	SinkPath string        `json:"sink_path"` // identifies the part
	Path     string        `json:"path"`      // in the container
	Pattern  string        `json:"pattern"`
	Mode     workload.Mode `json:"mode"`
	Index    Location      `json:"index"`  // the root of its index
	Files    int           `json:"files"`  // including directories and links
	Bytes    int64         `json:"bytes"`  // of the files' contents
	Stored   int64         `json:"stored"` // bytes in the sink that it needs, also those that it shares
	New      int64         `json:"new"`    // of these, what its upload has stored
}

// Location is where a root is, as a manifest has it.
type Location struct {
	Pack     string `json:"pack"` // a UUID
	PackSize int64  `json:"pack_size"`
	Offset   uint32 `json:"offset"`
	Length   uint32 `json:"length"`
	Size     uint32 `json:"size"`
	Hash     string `json:"hash"` // in hexadecimal
}

// Files returns how many files, directories and links a snapshot holds.
func (s Snapshot) Files() int {
	n := 0
	for _, p := range s.Parts {
		n += p.Files
	}
	return n
}

// Bytes returns the total size of the files of a snapshot.
func (s Snapshot) Bytes() int64 {
	var n int64
	for _, p := range s.Parts {
		n += p.Bytes
	}
	return n
}

// StoredBytes returns how many bytes in its sink a snapshot needs, those that it
// shares with others included.
func (s Snapshot) StoredBytes() int64 {
	var n int64
	for _, p := range s.Parts {
		n += p.Stored
	}
	return n
}

// NewBytes returns how many bytes the upload of a snapshot has stored.
func (s Snapshot) NewBytes() int64 {
	var n int64
	for _, p := range s.Parts {
		n += p.New
	}
	return n
}

// Transfer is the result of an upload or a download.
type Transfer struct {
	// Snapshot is the one that is current now, or was put into the container.
	// Its ID is "" when a download found none. A container with the same ID
	// holds this state.
	Snapshot Snapshot
	// Unchanged reports that the current snapshot was already the same, and
	// that the upload stored nothing.
	Unchanged bool
	// Files is how many files, directories and links the state has, and Bytes
	// their total size.
	Files int
	Bytes int64
	// MovedFiles is how many of the files were read from the container or written
	// into it, and MovedBytes their total size. The others were there already.
	MovedFiles int
	MovedBytes int64
	// Sent is the number of bytes to or from the sink.
	Sent     int64
	Duration time.Duration
}
