package wait_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/wait"
	"github.com/hostler/hostler/workload"
)

// file is a workload with hooks at every point of a wait. The rig's runner runs
// them.
const file = `id: w
image: box
pool: { min_idle: 1, max_size: 2, claim_idle_ttl: 1h }
hooks:
  wait_start: [{ command: [box, start] }]
  wait_signal: [{ command: [box, signal] }]
  wait_timeout: [{ command: [box, timeout] }]
`

var errKilled = errors.New("the process was killed")

// rig has a claim, and servers that can be killed.
type rig struct {
	*flowtest.Harness
	claim claim.Claim
	fired *fakeRunner

	mu     sync.Mutex         // held during changes; guards owners
	owners map[string]*server // of waits: one database file has one server
	outage bool               // of the database
	skew   time.Duration      // of its clock
}

var errOutage = errors.New("the database is unavailable")

// setOutage has all calls of the database fail, or no longer.
func (r *rig) setOutage(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outage = is
}

// setClock sets the database's clock, for the time that is left of waits.
func (r *rig) setClock(ahead time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skew = ahead
}

// newRig returns a rig whose claim is active. The harness' own service is not used.
func newRig(t *testing.T, source string) *rig {
	h := flowtest.NewStopped(t)
	h.Waits = nil
	h.Start()
	h.Apply(source)
	return &rig{Harness: h, claim: h.Claim("w", "ada"), fired: &fakeRunner{t: t, begun: map[string]int{}}, owners: map[string]*server{}}
}

// server is a service of a process that can be killed: from then on nothing of what
// it does has an effect.
type server struct {
	*wait.Service
	mu   sync.Mutex
	dead bool
	stop func()
	// stopEvents has it miss every event from now on.
	stopEvents func()
}

// start starts a server.
func (r *rig) start(options ...func(*wait.Options)) *server {
	s := &server{}
	o := wait.Options{
		Claims: r.DB, Workloads: r.Pools.Catalog, Runner: serverRunner{r.fired, s}, Log: slog.New(slog.DiscardHandler),
	}
	for _, set := range options {
		set(&o)
	}
	s.Service = wait.New(serverStore{r.DB, r, s}, o)
	ctx, cancel := context.WithCancel(context.Background())
	listening, stopEvents := context.WithCancel(ctx)
	s.stopEvents = stopEvents
	var g errgroup.Group
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error { return dispatch.New(r.DB, o.Log, s.EventHandlers()).Run(listening) })
	s.stop = sync.OnceFunc(func() { cancel(); _ = g.Wait() })
	r.T.Cleanup(s.stop)
	r.mu.Lock()
	var left []string // by servers that have terminated
	for id, owner := range r.owners {
		if owner.isDead() {
			left = append(left, id)
		}
	}
	r.mu.Unlock()
	require.NoError(r.T, s.TakeOver(context.Background(), left))
	return s
}

// kill kills the process.
func (s *server) kill() {
	s.mu.Lock()
	s.dead = true
	s.mu.Unlock()
	s.stop()
	s.Close() // its callers have lost it
}

// change makes a change of a wait, of which the server is the owner then.
func (d serverStore) change(do func() (id string, err error)) error {
	return d.s.step(func() error {
		d.r.mu.Lock()
		defer d.r.mu.Unlock()
		if d.r.outage {
			return errOutage
		}
		id, err := do()
		if err == nil && id != "" {
			d.r.owners[id] = d.s
		}
		return err
	})
}

// step does one step, and returns an error if the process is dead before or after it.
func (s *server) step(do func() error) error {
	if s.isDead() {
		return errKilled
	}
	err := do()
	if s.isDead() {
		return errKilled
	}
	return err
}

func (s *server) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// serverStore is the database of a server.
type serverStore struct {
	*store.DB
	r *rig
	s *server
}

// Self names the server.
func (d serverStore) Self() string { return fmt.Sprintf("%p", d.s) }

// owner returns the name of a wait's owner. The caller holds the lock.
func (d serverStore) owner(id string) string { return fmt.Sprintf("%p", d.r.owners[id]) }

func (d serverStore) AdoptWait(ctx context.Context, id string) error {
	return d.change(func() (string, error) { return id, d.DB.AdoptWait(ctx, id) })
}

func (d serverStore) OpenWaits(ctx context.Context) ([]wait.Open, error) {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	if d.r.outage {
		return nil, errOutage
	}
	all, err := d.DB.OpenWaits(ctx)
	for i := range all {
		all[i].TimeLeft -= d.r.skew
		all[i].IsOwn = d.owner(all[i].ID) == d.Self()
	}
	return all, err
}

func (d serverStore) StartWait(ctx context.Context, w wait.Wait) (out wait.Wait, created bool, err error) {
	err = d.change(func() (string, error) {
		if out, created, err = d.DB.StartWait(ctx, w); !created {
			return "", err
		}
		return out.ID, err
	})
	return out, created, err
}

func (d serverStore) UpdateWait(ctx context.Context, m wait.Transition) (out wait.Wait, err error) {
	err = d.change(func() (string, error) {
		out, err = d.DB.UpdateWait(ctx, m)
		return out.ID, err
	})
	return out, err
}

func (d serverStore) SendSignal(ctx context.Context, m wait.Signal) (out *wait.Wait, kept int, err error) {
	err = d.change(func() (string, error) {
		if out, kept, err = d.DB.SendSignal(ctx, m); out == nil {
			return "", err
		}
		return out.ID, err
	})
	return out, kept, err
}

func (d serverStore) Wait(ctx context.Context, id string) (out wait.Wait, left time.Duration, err error) {
	err = d.s.step(func() (err error) {
		d.r.mu.Lock()
		defer d.r.mu.Unlock()
		if d.r.outage {
			return errOutage
		}
		out, left, err = d.DB.Wait(ctx, id)
		left -= d.r.skew
		out.Owner = d.owner(id)
		return err
	})
	return out, left, err
}

// fakeRunner stands for the hooks of all servers and their records: a point that was
// begun for a round is not begun again.
type fakeRunner struct {
	t      *testing.T
	mu     sync.Mutex     // guards the fields below
	begun  map[string]int // how often, by round and point
	output func(hooks.Point, *runner.Wait) string
	random *rand.Rand    // nil: hooks take no time
	seen   []runner.Wait // of each point that was begun
	during func(ctx context.Context, p hooks.Point)
	err    error          // instead of running hooks
	state  hooks.RunState // of their runs; empty: they succeed
}

type serverRunner struct {
	f *fakeRunner
	s *server
}

func (r serverRunner) Fire(ctx context.Context, p hooks.Point, _ *workload.Workload, s runner.Subject) (out runner.Outcome, err error) {
	err = r.s.step(func() error {
		if r.f.err != nil {
			return r.f.err
		}
		out = r.f.fire(ctx, p, s)
		return ctx.Err()
	})
	return out, err
}

func (f *fakeRunner) fire(ctx context.Context, p hooks.Point, s runner.Subject) runner.Outcome {
	key := s.Wait.Round + " " + string(p)
	f.mu.Lock()
	isResumed := f.begun[key] > 0
	if isResumed && s.NoPriorRuns {
		f.t.Errorf("%s was begun before, and its records are not read", key)
	}
	took := time.Duration(0)
	if !isResumed {
		f.begun[key]++
		f.seen = append(f.seen, *s.Wait)
		if f.random != nil {
			took = time.Duration(f.random.IntN(3000)) * time.Millisecond
		}
	}
	text := `{"decision": "escalate"}`
	if f.output != nil {
		text = f.output(p, s.Wait)
	}
	during := f.during
	f.mu.Unlock()
	if during != nil && !isResumed {
		during(ctx, p)
	}
	if took > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(took):
		}
	}
	run := ended(text)
	run.State = cmp.Or(f.state, run.State)
	return runner.Outcome{Runs: []hooks.Run{run}}
}

// ended returns a run of a command that printed text.
func ended(text string) hooks.Run {
	run := hooks.Run{Kind: hooks.KindCommand, State: hooks.Succeeded}
	run.Stdout.Head, run.Stdout.Total = text, int64(len(text))
	return run
}

// wait returns a wait as it is on record.
func (r *rig) wait(id string) wait.Wait {
	r.T.Helper()
	w, _, err := r.DB.Wait(context.Background(), id)
	require.NoError(r.T, err)
	return w
}

// onlyWait returns the only wait.
func (r *rig) onlyWait() wait.Wait {
	r.T.Helper()
	all, err := r.DB.Waits(context.Background(), wait.Filter{})
	require.NoError(r.T, err)
	require.Len(r.T, all, 1)
	return all[0]
}

// sleep returns when d has passed and nothing is left to do.
func sleep(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
