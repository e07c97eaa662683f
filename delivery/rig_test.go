package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
	"github.com/hostler/hostler/workload"
)

// TestMain makes the delays between attempts exact.
func TestMain(m *testing.M) {
	delivery.ExactDelays()
	os.Exit(m.Run())
}

// rig is a service on a database, with an executor and workloads of the test.
type rig struct {
	t        *testing.T
	path     string
	db       *store.DB
	s        *delivery.Service
	executor *fakeExecutor
	hooks    workloads
	wrap     func(*store.DB) delivery.Store // nil: the database itself
	tainted  []string                       // containers
	stop     func()
}

// newRig returns a rig whose service has not started.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, path: dbtest.Path(t), hooks: workloads{m: &sync.Map{}}, executor: &fakeExecutor{}, stop: func() {}}
	r.open()
	t.Cleanup(func() {
		r.stop()
		require.NoError(t, r.db.Close())
	})
	return r
}

func (r *rig) open() {
	r.t.Helper()
	db, err := store.Open(context.Background(), r.path)
	require.NoError(r.t, err)
	r.db, r.hooks.db = db, db
	var s delivery.Store = db
	if r.wrap != nil {
		s = r.wrap(db)
	}
	r.s = delivery.New(s, delivery.Options{
		Workloads: r.hooks, Attempt: runner.New(nil, db, nil, nil).EventAttempt, Log: slog.New(slog.DiscardHandler),
		OnTainted: func(_ context.Context, container, _ string) error {
			r.tainted = append(r.tainted, container)
			return nil
		},
		Executors: runner.Executors{hooks.KindHTTP: r.executor, hooks.KindCommand: r.executor},
	})
}

// start runs the service and its dispatcher.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(context.Background())
	d := dispatch.New(r.db, slog.New(slog.DiscardHandler), r.s.EventHandlers())
	var g errgroup.Group
	g.Go(func() error { return d.Run(ctx) })
	g.Go(func() error { return r.s.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(r.t, g.Wait())
	})
	synctest.Wait()
}

// apply applies the workload web with event hooks.
func (r *rig) apply(hs ...hooks.EventHook) {
	r.t.Helper()
	ctx := context.Background()
	before, _ := r.db.Workload(ctx, "web") // without a record, it is the zero one
	after := pool.Record{ID: "web", Revision: "r", MaxSize: 1, UpdatedAt: before.UpdatedAt, EventHooks: map[string]int64{}}
	for _, h := range hs {
		after.EventHooks[h.Name] = pool.NewEventHook
		if since, ok := before.EventHooks[h.Name]; ok {
			after.EventHooks[h.Name] = since
		}
	}
	r.hooks.set("web", hs)
	require.NoError(r.t, r.db.PutWorkload(ctx, after, activity.Event{Type: activity.WorkloadApplied}))
}

// record records events of the workload web, with the given containers.
func (r *rig) record(t activity.Type, containers ...string) {
	r.t.Helper()
	for _, c := range containers {
		require.NoError(r.t, r.db.Append(context.Background(), activity.Event{Type: t, Workload: "web", Container: c, Message: c}))
	}
	<-time.After(10 * time.Millisecond) // the cursor waits for further events
	synctest.Wait()
}

// deliveries returns the deliveries as hook/lane/seq state, by id.
func (r *rig) deliveries() (all []string) {
	r.t.Helper()
	list, err := r.db.Deliveries(context.Background(), delivery.Filter{})
	require.NoError(r.t, err)
	for _, d := range list {
		all = append(all, fmt.Sprintf("%s/%s/%d %s", d.Hook, d.Lane, d.Seq, d.State))
	}
	return all
}

// only returns the one delivery that there is.
func (r *rig) only() delivery.Delivery {
	r.t.Helper()
	list, err := r.db.Deliveries(context.Background(), delivery.Filter{})
	require.NoError(r.t, err)
	require.Len(r.t, list, 1)
	return list[0]
}

// request returns an event hook that is a request.
func request(name string, on ...string) hooks.EventHook {
	return hooks.EventHook{On: on, Hook: hooks.Hook{
		Name: name, Action: hooks.Request{Method: "POST"}, OnError: hooks.Retry, Retries: 3, Timeout: hooks.DefaultRequestTimeout,
	}}
}

// command returns an event hook that is a command.
func command(name string, on ...string) hooks.EventHook {
	h := request(name, on...)
	h.Action = hooks.Command{Args: []string{name}}
	return h
}

// workloads has the workloads of a rig, with the records of its database.
type workloads struct {
	db *store.DB
	m  *sync.Map // of ids, to event hooks
}

func (w workloads) set(id string, hs []hooks.EventHook) {
	w.m.Store(id, hs)
}

func (w workloads) Current(ctx context.Context, id string) (*workload.Workload, pool.Record, error) {
	r, err := w.db.Workload(ctx, id)
	if err != nil {
		return nil, r, err
	}
	all, _ := w.m.Load(id)
	hs, _ := all.([]hooks.EventHook)
	return &workload.Workload{ID: id, EventHooks: hs}, r, nil
}

// fakeExecutor records attempts and ends them as the test says.
type fakeExecutor struct {
	mu       sync.Mutex
	attempts []runner.Attempt
	waits    []runner.Attempt
	// result returns the result of an attempt; nil: it succeeds. It may block.
	result func(ctx context.Context, a runner.Attempt) runner.Result
	// waited is the result of WaitResult; the zero value is an unknown one of
	// which nothing is left.
	waited runner.Result
}

func (x *fakeExecutor) Execute(ctx context.Context, a runner.Attempt) runner.Result {
	x.mu.Lock()
	x.attempts = append(x.attempts, a)
	result := x.result
	x.mu.Unlock()
	if result == nil {
		return runner.Result{State: hooks.Succeeded}
	}
	return result(ctx, a)
}

func (x *fakeExecutor) WaitResult(_ context.Context, a runner.Attempt) runner.Result {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waits = append(x.waits, a)
	if x.waited.State == "" {
		return runner.Result{State: hooks.Unknown, Gone: true}
	}
	return x.waited
}

func (*fakeExecutor) Ending(r hooks.Run) runner.Ending {
	return runner.Ending{MayRetry: r.State == hooks.Failed || r.State == hooks.TimedOut, MayContinue: true}
}

// end has attempts end with a function from now on.
func (x *fakeExecutor) end(result func(ctx context.Context, a runner.Attempt) runner.Result) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.result = result
}

// take returns hook/container.attempt of each attempt since the last call.
func (x *fakeExecutor) take() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []string
	for _, a := range x.attempts {
		all = append(all, fmt.Sprintf("%s/%s.%d", a.Hook, a.Container, a.Attempt))
	}
	x.attempts = nil
	return strings.Join(all, " ")
}

// sorted returns the words of a text in order.
func sorted(text string) string {
	words := strings.Fields(text)
	slices.Sort(words)
	return strings.Join(words, " ")
}

func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newRig(t)) })
}

func mustParse(t *testing.T, text string) variables.Condition {
	t.Helper()
	c, err := variables.ParseCondition(text)
	require.NoError(t, err)
	return c
}

// addContainer adds an idle container of the workload web.
func addContainer(t *testing.T, db *store.DB, id string) {
	t.Helper()
	require.NoError(t, db.AddContainer(t.Context(), pool.Container{ID: id, Workload: "web", Revision: "r"}, 9))
	_, err := db.UpdateContainer(t.Context(), pool.Ready(id, func(c *pool.Container) { c.Health = pool.Healthy }))
	require.NoError(t, err)
}
