package snapshot

import (
	"errors"
	"time"

	"github.com/hostler/hostler/workload"
)

// What can be wrong with a call, besides the errors of package runtime for the
// container's side.
var (
	// ErrStale says that a newer claim's snapshot is there already: this one is
	// not to be kept. Trying again does not help.
	ErrStale = errors.New("a newer claim has kept its state already")
	// ErrConflict says that somebody else has changed the tenant's snapshots
	// meanwhile. Nothing is lost: do it again.
	ErrConflict = errors.New("the snapshots were changed by somebody else meanwhile")
	// ErrTooLarge says that the state is beyond the workload's max_size or
	// max_files.
	ErrTooLarge = errors.New("the state is too large")
	// ErrCorrupt says that what lies in the sink is not what was put there.
	ErrCorrupt = errors.New("the snapshot is damaged")
	// ErrNoSnapshot says that there is no such snapshot.
	ErrNoSnapshot = errors.New("no such snapshot")
	// ErrInvalidTenant says that a tenant or workload has no name that a sink can hold.
	ErrInvalidOwner = errors.New("no name for a sink")
)

// Owner is whose snapshots are meant. Two owners never share an object.
type Owner struct {
	Workload string
	Tenant   string
}

// Origin is what a snapshot is made of and for.
type Origin struct {
	Owner
	Revision  string
	Claim     string
	Container string
	// Fence orders claims: that of a tenant's later claim is greater. An upload
	// with a lesser one than the sink has seen is ErrStale.
	Fence int64
	// Reason is for people: release, interval, request.
	Reason string
	// Progress, if set, is called with the number of bytes that have been sent
	// so far, from one goroutine at a time and not for long.
	Progress func(sent int64)
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

// Part is what one mapping has kept.
type Part struct {
	SinkPath string        `json:"sink_path"` // what it is found by
	Path     string        `json:"path"`      // in the container
	Pattern  string        `json:"pattern"`
	Mode     workload.Mode `json:"mode"`
	Object   string        `json:"object"` // its key below the owner's folder
	Size     int64         `json:"size"`   // bytes of the object
	SHA256   string        `json:"sha256"` // of the object
	Digest   string        `json:"digest"` // of the files, however they are packed
	Files    int           `json:"files"`  // with folders and links
	Bytes    int64         `json:"bytes"`  // of the files' contents
	Skipped  int           `json:"skipped,omitempty"`
}

// Files is how many files, folders and links a snapshot holds.
func (s Snapshot) Files() int {
	n := 0
	for _, p := range s.Parts {
		n += p.Files
	}
	return n
}

// Bytes is how large the files of a snapshot are.
func (s Snapshot) Bytes() int64 {
	var n int64
	for _, p := range s.Parts {
		n += p.Bytes
	}
	return n
}

// Transfer is what an upload or a download did.
type Transfer struct {
	// Snapshot is the one that is current now, or was put into the container.
	// Its ID is "" when a download found none: whoever finds a container with
	// the same ID knows that it holds this state.
	Snapshot Snapshot
	// Unchanged says that an upload found the current snapshot to hold all of
	// it already and stored nothing.
	Unchanged bool
	// Files is how many files, folders and links were put into the container,
	// or read from it.
	Files int
	// Bytes is how large they are, Sent how many bytes went to or came from the
	// sink.
	Bytes, Sent int64
	Duration    time.Duration
}

// Details are the figures of a transfer for the data of an event.
func (t Transfer) Details() map[string]any {
	return map[string]any{
		"snapshot": t.Snapshot.ID, "unchanged": t.Unchanged, "files": t.Files,
		"bytes": t.Bytes, "uploaded_bytes": t.Sent, "duration_ms": float64(t.Duration.Microseconds()) / 1000,
	}
}
