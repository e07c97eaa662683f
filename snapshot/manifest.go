package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"github.com/hostler/hostler/internal/flow"
)

// manifestVersion is the form of a head. One of a later form is refused: who does
// not know what it says must not build on it.
const manifestVersion = 1

// maxManifestSize bounds what is read as a head: far above keep's most.
const maxManifestSize = 64 << 20

// manifest says which snapshots a tenant has. It is never changed: each change is
// the head of the next generation, and the highest one counts. A snapshot that
// a head does not list is gone.
type manifest struct {
	Version    int        `json:"version"`
	Generation int64      `json:"generation"`
	Fence      int64      `json:"fence"`
	Workload   string     `json:"workload"`
	Tenant     string     `json:"tenant"`
	Snapshots  []Snapshot `json:"snapshots"` // the current one first
}

// current is the newest snapshot, if there is one.
func (h manifest) current() (Snapshot, bool) {
	if len(h.Snapshots) == 0 {
		return Snapshot{}, false
	}
	return h.Snapshots[0], true
}

// objects are those that the snapshots need.
func (h manifest) objects() map[string]bool {
	all := map[string]bool{}
	for _, s := range h.Snapshots {
		for _, p := range s.Parts {
			all[p.Object] = true
		}
	}
	return all
}

// withSnapshot is the head after h with another current snapshot, of which keep stay.
func (h manifest) withSnapshot(s Snapshot, keep int) manifest {
	h.Snapshots = append([]Snapshot{s}, h.Snapshots...)
	return h.truncated(keep)
}

// truncated is the head after h with at most keep snapshots.
func (h manifest) truncated(keep int) manifest {
	h.Snapshots = slices.Clone(h.Snapshots[:min(len(h.Snapshots), max(keep, 1))])
	return h
}

const manifestDir = "heads/"

func manifestKey(dir string, generation int64) string {
	return fmt.Sprintf("%s%s%016d.json", dir, manifestDir, generation)
}

var manifestName = regexp.MustCompile(`/heads/([0-9]{16})\.json$`)

// generations lists the heads that there are, in no order.
func (s *Sink) generations(ctx context.Context, dir string) ([]int64, error) {
	var list []int64
	err := s.bucket.List(ctx, dir+manifestDir, func(o Object) error {
		if m := manifestName.FindStringSubmatch(o.Key); m != nil {
			n, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil {
				return err
			}
			list = append(list, n)
		}
		return nil
	})
	return list, err
}

// maxReadAttempts is how often a head that went away while we looked is looked for
// again: whoever removed it has made a newer one.
const maxReadAttempts = 10

// loadManifest reads the head that counts. Its generation is 0 when there is none.
func (s *Sink) loadManifest(ctx context.Context, dir string, o Owner) (manifest, error) {
	for range maxReadAttempts {
		list, err := s.generations(ctx, dir)
		if err != nil {
			return manifest{}, fmt.Errorf("look for snapshots: %w", err)
		}
		if len(list) == 0 {
			return manifest{Version: manifestVersion, Workload: o.Workload, Tenant: o.Tenant}, nil
		}
		h, err := s.readManifest(ctx, dir, slices.Max(list))
		if errors.Is(err, ErrNoObject) {
			continue
		}
		if err == nil && (h.Workload != o.Workload || h.Tenant != o.Tenant) {
			err = fmt.Errorf("%w: the list of snapshots is tenant %q's of workload %s", ErrCorrupt, h.Tenant, h.Workload)
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
	data, err := io.ReadAll(io.LimitReader(r, maxManifestSize))
	if err != nil {
		return manifest{}, err
	}
	var h manifest
	if err := json.Unmarshal(data, &h); err != nil {
		return manifest{}, fmt.Errorf("%w: the list of snapshots %d: %w", ErrCorrupt, generation, err)
	}
	if h.Version > manifestVersion {
		return manifest{}, fmt.Errorf("the list of snapshots is of form %d, made by a newer Hostler", h.Version)
	}
	if h.Generation != generation {
		return manifest{}, fmt.Errorf("%w: the list of snapshots %d says that it is %d", ErrCorrupt, generation, h.Generation)
	}
	return h, nil
}

// commit makes next the head that counts, in place of before: the one step by
// which anything changes. ErrConflict says that before does not count any more,
// and that next does not either, or is not known to.
func (s *Sink) commit(ctx context.Context, dir string, previous, next manifest) error {
	next.Generation = previous.Generation + 1
	data, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("write the list of snapshots: %w", err)
	}
	key := manifestKey(dir, next.Generation)
	flow.Failpoint("snapshot", "commit", "before")
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
	// Somebody whose head was removed since may have been here before us, far
	// ahead: ours counts only if it is the highest.
	list, err := s.generations(ctx, dir)
	if err != nil {
		return fmt.Errorf("look for snapshots: %w", err)
	}
	if slices.Max(append(list, 0)) != next.Generation {
		_ = s.bucket.Delete(ctx, key) // nobody builds on it
		return ErrConflict
	}
	flow.Failpoint("snapshot", "sweep", "before")
	s.collectGarbage(ctx, dir, list, previous, next)
	flow.Failpoint("snapshot", "sweep", "after")
	return nil
}

// isOwnWrite says whether a head that exists is the one that we wanted to create: a
// client that got no answer the first time has created it and tried again. It
// is so only to the last byte: what another head needs must not be swept. One
// that cannot be read is taken for another's: whoever does it again finds out.
func (s *Sink) isOwnWrite(ctx context.Context, key string, want []byte) bool {
	r, err := s.bucket.Get(ctx, key)
	if err != nil {
		return false
	}
	defer r.Close()
	got, err := io.ReadAll(io.LimitReader(r, maxManifestSize))
	return err == nil && bytes.Equal(got, want)
}

// collectGarbage removes what nothing needs any more now that next counts: older heads,
// and objects that before needed and next does not. Nobody can need those
// again, for whoever builds on before fails to commit. What cannot be removed
// now is left to Prune.
func (s *Sink) collectGarbage(ctx context.Context, dir string, list []int64, previous, next manifest) {
	for _, generation := range list {
		if generation < next.Generation {
			_ = s.bucket.Delete(ctx, manifestKey(dir, generation))
		}
	}
	needed := next.objects()
	for object := range previous.objects() {
		if !needed[object] {
			_ = s.bucket.Delete(ctx, dir+object)
		}
	}
}
