package snapshot

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/hostler/hostler/internal/flow"
)

// manifestVersion is the version of the manifest's format. A manifest of another
// version is refused, because a server that does not understand it must not
// replace it, nor take it for no state.
const manifestVersion = 2

// checkVersion checks the version of a manifest.
func checkVersion(version int, key string) error {
	switch {
	case version == manifestVersion:
		return nil
	case version < 1:
		return fmt.Errorf("%w: %s has version %d, which no Hostler writes: restore the object from a backup of the bucket", ErrCorrupt, key, version)
	}
	return fmt.Errorf("%w: %s has version %d, and this server knows only version %d: use a Hostler that knows the former", ErrFormat, key, version, manifestVersion)
}

// manifest lists the snapshots of a tenant. It is never changed: each change
// creates the manifest of the next generation, and the highest one is current.
// A snapshot that the current manifest does not list is deleted.
type manifest struct {
	Version    int        `json:"version"`
	Generation int64      `json:"generation"`
	Fence      int64      `json:"fence"`
	Workload   string     `json:"workload"`
	Tenant     string     `json:"tenant"`
	Salt       salt       `json:"salt"`      // keys the hashes of this owner's blobs; never changes
	Snapshots  []Snapshot `json:"snapshots"` // the current one first
	Garbage    []Mark     `json:"garbage,omitempty"`
	// Unmarked is when a commit last dropped a snapshot whose packs it could not
	// mark. Prune takes every pack that no snapshot needs for one of them.
	Unmarked time.Time `json:"unmarked,omitzero"`

	// admit, if set, is called right before it is created, and its error prevents that.
	// It is not stored.
	admit func(context.Context) error
}

// salt is 32 random bytes, in hexadecimal.
type salt [32]byte

// MarshalText implements encoding.TextMarshaler.
func (s salt) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *salt) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(s) {
		return fmt.Errorf("the salt is not %d bytes in hexadecimal", len(s))
	}
	copy(s[:], b)
	return nil
}

// current returns the newest snapshot, if there is one.
func (h manifest) current() (Snapshot, bool) {
	if len(h.Snapshots) == 0 {
		return Snapshot{}, false
	}
	return h.Snapshots[0], true
}

// withSnapshot returns the manifest after h with a new current snapshot and at
// most keep snapshots.
func (h manifest) withSnapshot(s Snapshot, keep int) manifest {
	h.Snapshots = append([]Snapshot{s}, h.Snapshots...)
	return h.truncated(keep)
}

// truncated returns the manifest after h with at most keep snapshots.
func (h manifest) truncated(keep int) manifest {
	h.Snapshots = slices.Clone(h.Snapshots[:min(len(h.Snapshots), max(keep, 1))])
	return h
}

const manifestDir = "heads/"

func manifestKey(dir string, generation int64) string {
	return fmt.Sprintf("%s%s%016d.json", dir, manifestDir, generation)
}

var manifestName = regexp.MustCompile(`/heads/([0-9]{16})\.json$`)

// generations lists the existing manifests, in no particular order.
func (s *Sink) generations(ctx context.Context, dir string) (list []int64, err error) {
	err = s.eachHead(ctx, dir, func(generation int64, _ Object) { list = append(list, generation) })
	return list, err
}

// eachHead calls each for the existing manifests.
func (s *Sink) eachHead(ctx context.Context, dir string, each func(generation int64, o Object)) error {
	return s.bucket.List(ctx, dir+manifestDir, func(o Object) error {
		if m := manifestName.FindStringSubmatch(o.Key); m != nil {
			n, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil {
				return err
			}
			each(n, o)
		}
		return nil
	})
}

// maxReadAttempts is how often the manifests are listed again when the newest
// one was removed before it could be read: the process that removed it has
// created a newer one.
const maxReadAttempts = 10

// loadManifest reads the current manifest. Its generation is 0 when there is
// none.
func (s *Sink) loadManifest(ctx context.Context, dir string, o Owner) (manifest, error) {
	for range maxReadAttempts {
		list, err := s.generations(ctx, dir)
		if err != nil {
			return manifest{}, fmt.Errorf("list snapshots: %w", err)
		}
		if len(list) == 0 {
			return manifest{Version: manifestVersion, Workload: o.Workload, Tenant: o.Tenant}, nil
		}
		h, err := s.readManifest(ctx, dir, slices.Max(list))
		if errors.Is(err, ErrNoObject) {
			continue
		}
		if err == nil && (h.Workload != o.Workload || h.Tenant != o.Tenant) {
			err = fmt.Errorf("%w: the list of snapshots belongs to tenant %q of workload %s", ErrCorrupt, h.Tenant, h.Workload)
		}
		if err != nil {
			return manifest{}, fmt.Errorf("read the list of snapshots: %w", err)
		}
		return h, nil
	}
	return manifest{}, fmt.Errorf("read the list of snapshots: %w", ErrConflict)
}

func (s *Sink) readManifest(ctx context.Context, dir string, generation int64) (manifest, error) {
	r, err := s.bucket.Get(ctx, manifestKey(dir, generation))
	if err != nil {
		return manifest{}, err
	}
	defer r.Close()
	data, err := readBounded(r)
	if err != nil {
		return manifest{}, fmt.Errorf("%s: %w", manifestKey(dir, generation), err)
	}
	return decodeManifest(data, manifestKey(dir, generation), generation)
}

// decodeManifest returns the manifest that the object of a key has.
func decodeManifest(data []byte, key string, generation int64) (manifest, error) {
	if err := checkElements(data); err != nil {
		return manifest{}, fmt.Errorf("%w: %s: %w", ErrCorrupt, key, err)
	}
	// The version first: another one may have other fields.
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return manifest{}, fmt.Errorf("%w: %s: %w", ErrCorrupt, key, err)
	}
	if err := checkVersion(v.Version, key); err != nil {
		return manifest{}, err
	}
	var h manifest
	if err := json.Unmarshal(data, &h); err != nil {
		return manifest{}, fmt.Errorf("%w: %s: %w", ErrCorrupt, key, err)
	}
	if h.Generation != generation {
		return manifest{}, fmt.Errorf("%w: %s has generation %d", ErrCorrupt, key, h.Generation)
	}
	if h.Salt == (salt{}) {
		return manifest{}, fmt.Errorf("%w: %s has no salt", ErrCorrupt, key)
	}
	if err := h.check(); err != nil {
		return manifest{}, fmt.Errorf("%w: %s: %w", ErrCorrupt, key, err)
	}
	return h, nil
}

// encode returns the manifest as it is stored. What a reader would refuse is an
// error: it would be the end of all of the owner's snapshots.
func (h manifest) encode() ([]byte, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(data) > maxManifestSize {
		return nil, fmt.Errorf("it has %d bytes, more than %d: lower keep, or use fewer mappings", len(data), maxManifestSize)
	}
	return data, checkElements(data)
}

// errNotAdmitted indicates that a manifest was not created, and never will be.
var errNotAdmitted = errors.New("the list of snapshots is not written")

// commit makes next the current manifest, in place of previous. It is the one
// step that changes the state. ErrConflict indicates that previous is no longer
// current, and that next is not either, or is not known to be. It marks the packs
// that next does not need, for which it reads roots that are not known.
func (s *Sink) commit(ctx context.Context, dir string, previous, next manifest, known ...knownRoot) error {
	if next.Salt == (salt{}) {
		return errors.New("write the list of snapshots: it has no salt")
	}
	next.Generation = previous.Generation + 1
	flow.Failpoint("snapshot", "mark", "before")
	collected := s.repository(dir, next).collect(ctx, previous, next, known, func() (time.Time, error) { return s.now(ctx, dir) })
	if next.Garbage = collected.marks; !collected.unmarked.IsZero() {
		next.Unmarked = collected.unmarked
	}
	flow.Failpoint("snapshot", "mark", "after")
	data, err := next.encode()
	if err != nil {
		return fmt.Errorf("write the list of snapshots: %w", err)
	}
	key := manifestKey(dir, next.Generation)
	flow.Failpoint("snapshot", "commit", "before")
	if next.admit != nil {
		if err := next.admit(ctx); err != nil {
			return fmt.Errorf("%w: %w", errNotAdmitted, err)
		}
	}
	err = s.bucket.Create(ctx, key, data)
	flow.Failpoint("snapshot", "commit", "after")
	if errors.Is(err, ErrExists) && s.isOwnWrite(ctx, key, data) {
		err = nil
	}
	if errors.Is(err, ErrExists) {
		return ErrConflict
	}
	if err != nil {
		return fmt.Errorf("write the list of snapshots: %w", err)
	}
	// Another upload may have committed far later generations, and removed this
	// one: next is current only if it is the highest.
	var list []int64
	err = s.eachHead(ctx, dir, func(generation int64, o Object) {
		if list = append(list, generation); generation == next.Generation {
			s.clock.observe(o)
		}
	})
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	if slices.Max(append(list, 0)) != next.Generation {
		_ = s.bucket.Delete(ctx, key) // no later manifest is based on it
		return ErrConflict
	}
	flow.Failpoint("snapshot", "sweep", "before")
	s.sweep(ctx, dir, list, previous, next, collected.expired)
	flow.Failpoint("snapshot", "sweep", "after")
	return nil
}

// isOwnWrite reports whether an existing manifest is the one that this upload
// tried to create: a client that got no answer has created it and retried. All
// bytes must be equal, because the objects of another manifest must not be
// removed. A manifest that cannot be read counts as another's; a repeated
// upload finds out.
func (s *Sink) isOwnWrite(ctx context.Context, key string, want []byte) bool {
	r, err := s.bucket.Get(ctx, key)
	if err != nil {
		return false
	}
	defer r.Close()
	got, err := readBounded(r)
	return err == nil && bytes.Equal(got, want)
}
