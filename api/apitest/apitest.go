// Package apitest has an in-memory backend for the tests of the API, of its
// client and of the command line. It stores what it is given and does nothing
// by itself. Errors can be set for each call.
package apitest

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/wait"
	"github.com/hostler/hostler/workload"
)

// Time is the time of all records.
var Time = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// Backend implements all services that the API needs.
type Backend struct {
	mu         sync.Mutex // guards all that follows
	Errors     map[string]error
	Records    map[string]pool.Record
	Pools      map[string]pool.Status
	Containers []pool.Container
	Claims     []claim.Claim
	Attempts   []hooks.Run
	Deliveries []delivery.Delivery
	Waits      []wait.Wait
	Log        []activity.Event
	OldestSeq  int64 // events before it are deleted
	Output     string
	TTL        time.Duration       // of idle claims
	Snapshots  []snapshot.Snapshot // of every tenant, the current one first
	Verified   snapshot.Verification
	Archive    []byte // the tar of every snapshot
	Report     doctor.Report
	Keys       []credential.Key
	Bindings   []credential.Binding
	Values     map[string]map[string]memory.Value                      // of memory, by claim and level, and key
	Files      map[string]File                                         // of every container, by path
	Programs   map[int]func(context.Context) (runtime.PortConn, error) // what listens in containers, by port
	Requests   []any                                                   // requests of claims and releases, and FileUsed, in order
	changed    chan struct{}
	versions   int64 // of the last value of memory
}

// New returns an empty backend.
func New() *Backend {
	return &Backend{
		Errors: map[string]error{}, Records: map[string]pool.Record{}, Pools: map[string]pool.Status{},
		Values: map[string]map[string]memory.Value{}, Files: map[string]File{}, Programs: map[int]func(context.Context) (runtime.PortConn, error){},
		changed: make(chan struct{}),
		Report: doctor.Report{
			OK: true, Findings: []doctor.Finding{}, Engine: doctor.EngineInfo{Reachable: true, Containers: 2, Duration: 1.5},
			Database: doctor.Database{Kind: "SQLite", Version: "3.51.3", Schema: 3, Bytes: 1 << 20},
			Disk:     doctor.Disk{Path: "/var/lib/hostler", Total: 1 << 40, Free: 1 << 39},
		},
	}
}

// Locked calls f while no request reads or changes the backend.
func (b *Backend) Locked(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// Options returns the options of an API with the backend.
func (b *Backend) Options() api.Options {
	return api.Options{
		Workloads: workloads{b}, Pools: pools{b}, Containers: containers{b},
		Claimer: claims{b}, Releaser: claims{b}, Claims: records{b},
		State: state{b}, Doctor: state{b}, Events: events{b}, Runs: runs{b}, Deliveries: deliveries{b}, Publisher: publisher{b}, DryRuns: dryRuns{b}, Memory: b.memory(), Waits: waits{b}, Files: b.access(), Ports: b.Ports(nil, nil), Keys: keyring{b}, Bindings: bindings{b}, Quotas: NewQuotas(nil), Version: "test",
		Ready: func(context.Context) error { return b.injectedError("ready") },
	}
}

// Fail makes a call fail from now on; with nil it works again.
func (b *Backend) Fail(call string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Errors[call] = err
}

func (b *Backend) injectedError(call string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Errors[call]
}

// Append adds events to the log and numbers them.
func (b *Backend) Append(es ...activity.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range es {
		e.Seq = int64(len(b.Log) + 1)
		if e.Time.IsZero() {
			e.Time = Time.Add(time.Duration(e.Seq) * time.Second)
		}
		b.Log = append(b.Log, e)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// Truncate deletes the events before oldest.
func (b *Backend) Truncate(oldest int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.OldestSeq = oldest
}

type workloads struct{ *Backend }

func (b workloads) Apply(_ context.Context, source []byte, file, _ string) (pool.Applied, error) {
	if err := b.injectedError("apply"); err != nil {
		return pool.Applied{}, err
	}
	w, err := workload.Parse(source, file)
	if err != nil {
		return pool.Applied{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, there := b.Records[w.ID]
	r := pool.Record{
		ID: w.ID, Revision: w.Revision, Source: source, MinIdle: w.Pool.MinIdle, MaxSize: w.Pool.MaxSize,
		CreatedAt: Time, UpdatedAt: Time,
	}
	b.Records[w.ID] = r
	b.Pools[w.ID] = pool.Status{
		Workload: w.ID, Revision: w.Revision, MinIdle: r.MinIdle, MaxSize: r.MaxSize,
		Containers: map[pool.State]int{pool.Idle: r.MinIdle}, Fill: pool.FillStatus{State: pool.FillIdle},
	}
	return pool.Applied{Record: r, Created: !there, Changed: before.Revision != r.Revision}, nil
}

func (b workloads) Delete(_ context.Context, id string) error {
	if err := b.injectedError("delete"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.Records[id]
	if !ok {
		return pool.ErrWorkloadNotFound
	}
	if slices.ContainsFunc(b.Containers, func(c pool.Container) bool { return c.Workload == id }) {
		r.Deleting = true
		b.Records[id] = r
		return nil
	}
	delete(b.Records, id)
	delete(b.Pools, id)
	return nil
}

func (b workloads) Workload(_ context.Context, id string) (pool.Record, error) {
	if err := b.injectedError("workload"); err != nil {
		return pool.Record{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.Records[id]
	if !ok {
		return r, pool.ErrWorkloadNotFound
	}
	return r, nil
}

func (b workloads) Workloads(context.Context) ([]pool.Record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []pool.Record
	for _, r := range b.Records {
		out = append(out, r)
	}
	return out, b.Errors["workloads"]
}

type pools struct{ *Backend }

func (b pools) Status(_ context.Context, id string) (pool.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.Pools[id]
	if !ok {
		return s, pool.ErrWorkloadNotFound
	}
	return s, b.Errors["status"]
}

func (b pools) Statuses(context.Context) ([]pool.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []pool.Status
	for _, s := range b.Pools {
		out = append(out, s)
	}
	return out, b.Errors["statuses"]
}

func (b pools) Scale(ctx context.Context, id string, change pool.Scale) (pool.Status, error) {
	s, err := b.Status(ctx, id)
	if err == nil {
		err = b.injectedError("scale")
	}
	if err != nil {
		return s, err
	}
	if change.MinIdle != nil {
		s.MinIdle = *change.MinIdle
	}
	if change.MaxSize != nil {
		s.MaxSize = *change.MaxSize
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Pools[id] = s
	return s, nil
}

func (b pools) Drain(ctx context.Context, id string) (pool.Status, error) {
	s, err := b.Status(ctx, id)
	if err != nil {
		return s, err
	}
	s.Fill.State = pool.FillDraining
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Pools[id] = s
	return s, b.Errors["drain"]
}

type containers struct{ *Backend }

func (b containers) Container(_ context.Context, id string) (pool.Container, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.Backend.Containers {
		if c.ID == id {
			return c, nil
		}
	}
	return pool.Container{}, pool.ErrContainerNotFound
}

func (b containers) Containers(_ context.Context, f pool.ContainerFilter) ([]pool.Container, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return firstMatching(inOrder(b.Backend.Containers, f.Newest), f.Limit, func(c pool.Container) bool {
		return isSelected(c.ID, f.IDPart, f.After, f.Newest) && matchesField(f.Workload, c.Workload) && matchesField(f.Tenant, c.Tenant) && f.Scope.Includes(c.Tenant, c.Workload, c.Claim) &&
			(len(f.States) == 0 && c.State != pool.Destroyed || slices.Contains(f.States, c.State))
	}), b.Errors["containers"]
}

func (b containers) DestroyContainerNow(ctx context.Context, id string, force bool) error {
	err := b.DestroyContainer(ctx, id, force)
	for i, c := range b.Backend.Containers {
		if err == nil && c.ID == id {
			b.Backend.Containers[i].Forced = pool.ForcedNow
		}
	}
	return err
}

func (b containers) DestroyContainer(_ context.Context, id string, force bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range b.Backend.Containers {
		if c.ID != id {
			continue
		}
		if c.State == pool.Claimed && !force {
			return pool.ErrInUse
		}
		b.Backend.Containers[i].State = pool.Destroying
		return nil
	}
	return pool.ErrContainerNotFound
}

func (b containers) Logs(ctx context.Context, id string, tail int64) (io.ReadCloser, error) {
	if _, err := b.Container(ctx, id); err != nil {
		return nil, err
	}
	if err := b.injectedError("logs"); err != nil {
		return nil, err
	}
	text := b.Output
	return io.NopCloser(strings.NewReader(text[max(0, len(text)-int(tail)):])), nil
}

type claims struct{ *Backend }

func (b claims) Claim(_ context.Context, r claim.Request) (claim.Claim, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Requests = append(b.Requests, r)
	if err := b.Errors["claim"]; err != nil {
		return claim.Claim{}, false, err
	}
	if _, ok := b.Records[r.Workload]; !ok {
		return claim.Claim{}, false, pool.ErrWorkloadNotFound
	}
	for _, c := range b.Claims {
		if c.Workload == r.Workload && c.Tenant == r.Tenant && c.State.IsLive() {
			return c, false, nil
		}
	}
	at := Time
	c := claim.Claim{
		ID: "claim-" + r.Tenant, Workload: r.Workload, Tenant: r.Tenant, Container: "box-1", State: claim.Active,
		Source: claim.Fresh, Endpoint: runtime.Endpoint{Host: "10.0.0.2", Ports: []int{80}},
		Timings: map[string]float64{"reserve": 1.5}, CreatedAt: at, ActiveAt: &at,
	}
	b.Claims = append(b.Claims, c)
	return c, true, nil
}

func (b claims) Touch(ctx context.Context, id string) (claim.Claim, error) {
	return records(b).Claim(ctx, id)
}

// Extend returns what a claim with a lifetime would have.
func (b claims) Extend(ctx context.Context, id string, by time.Duration) (claim.Claim, error) {
	if err := b.Errors["extend"]; err != nil {
		return claim.Claim{}, err
	}
	c, err := records(b).Claim(ctx, id)
	at := c.CreatedAt.Add(by)
	c.ExpiresAt = &at
	return c, err
}

func (b claims) IdleTTL(context.Context, string) time.Duration { return b.TTL }

func (b claims) Release(_ context.Context, id string, r release.Request) (claim.Claim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Requests = append(b.Requests, r)
	if err := b.Errors["release"]; err != nil {
		return claim.Claim{}, err
	}
	for i, c := range b.Claims {
		if c.ID == id {
			b.Claims[i].State = claim.Released
			return b.Claims[i], nil
		}
	}
	return claim.Claim{}, claim.ErrClaimNotFound
}

func matchesField(want, got string) bool { return want == "" || want == got }

// firstMatching returns the first limit items that match.
func firstMatching[T any](items []T, limit int, ok func(T) bool) []T {
	var out []T
	for _, item := range items {
		if ok(item) && (limit == 0 || len(out) < limit) {
			out = append(out, item)
		}
	}
	return out
}
