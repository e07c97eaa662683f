package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/attempts"
	"github.com/hostler/hostler/auth/audit"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/claim/seal"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/builtin"
	"github.com/hostler/hostler/hooks/dryrun"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/hooks/request/googleauth"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/inside"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/membership"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/publish"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/release/schedule"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/cloud"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/wait"
	"github.com/hostler/hostler/workload"
)

// server has the services of a server, wired together.
type server struct {
	db          *store.DB
	rt          backend
	sinks       *snapshot.Sinks
	requests    *request.Executor
	pools       *pool.Pools
	claims      *claim.Service
	releases    *release.Service
	keeper      *inside.Keeper
	inside      *inside.Service // set before any flow begins
	events      *dispatch.Dispatcher
	schedule    *schedule.Scheduler
	delivery    *delivery.Service
	publish     *publish.Service
	waits       *wait.Service
	dryRuns     *dryrun.Service
	access      *access.Service
	ports       api.PortDomain
	uses        *access.Recorder
	denials     *audit.Recorder
	memory      *memory.Service
	removals    *removals
	metrics     *metrics
	quotas      *quota.Service
	credentials *credential.Service
	tokens      auth.TokenVerifier // of other issuers; nil for none
	attempts    *attempts.Limiter  // nil without credentials
	listener    *listeners         // set before the API is served
	member      *membership.Member // nil without a shared database
	log         *slog.Logger
}

// wire opens the database and the runtime and builds the services on them.
// It changes no container and no claim: recoverWork and the loops do.
func wire(ctx context.Context, c serveConfig, log *slog.Logger) (*server, error) {
	s, id, err := wireServices(ctx, c, log)
	if err != nil {
		return nil, err
	}
	s.claims.EnvironmentKey = id.secret
	if s.ports, err = api.ParsePortDomain(c.portDomain, id.secret); err != nil {
		return nil, errors.Join(err, s.closeAll())
	}
	if err := s.loadCredentials(ctx, c, id.secret); err != nil {
		return nil, errors.Join(err, s.closeAll())
	}
	return s, nil
}

// wireServices is wire without the domain of ports and the credentials.
func wireServices(ctx context.Context, c serveConfig, log *slog.Logger) (*server, identity, error) {
	stateKeys, err := c.stateKeys(log)
	if err != nil {
		return nil, identity{}, err
	}
	if err := os.MkdirAll(c.data, 0o700); err != nil {
		return nil, identity{}, fmt.Errorf("create the data directory: %w", err)
	}
	dsn, err := c.database()
	if err != nil {
		return nil, identity{}, err
	}
	db, err := store.Open(ctx, dsn)
	if err != nil {
		return nil, identity{}, err
	}
	log.Info("database opened", "store", store.Redact(dsn))
	id, err := loadIdentity(ctx, db)
	if err != nil {
		return nil, identity{}, errors.Join(err, db.Close())
	}
	member, checkLease := newMember(db, log)
	rt, err := openRuntime(ctx, c, id, checkLease, log)
	if err != nil {
		return nil, identity{}, errors.Join(err, db.Close())
	}
	rt = observedRuntime(rt, c.beforeDestroy)
	db.SetProtocols(rt.Protocols())
	quotas, err := c.quotaDefaults()
	if err != nil {
		return nil, identity{}, errors.Join(err, rt.Close(), db.Close())
	}
	db.SetQuotas(quotas)
	requests, err := c.requests()
	if err != nil {
		return nil, identity{}, errors.Join(err, rt.Close(), db.Close())
	}
	sinks := snapshot.NewSinks(c.pathPolicy(db.IsShared()), cloud.Open)
	sinks.Keys, sinks.OwnDirectory = stateKeys, c.ownState
	if !db.IsShared() {
		return assemble(db, rt, sinks, requests, seal.New(c.credentialsDir), c.maxWaitTimeout, log), id, nil
	}
	if err := register(ctx, c, db, member); err != nil {
		return nil, identity{}, errors.Join(err, rt.Close(), db.Close())
	}
	s := assemble(db, guardedBackend{member.Guard(rt), rt}, sinks, requests, seal.New(c.credentialsDir), c.maxWaitTimeout, log)
	s.member = member
	return s, id, nil
}

// newMember returns this server as a member of those on a shared database, and
// the check of its lease; both are nil for a database of one server.
func newMember(db *store.DB, log *slog.Logger) (*membership.Member, func() error) {
	if !db.IsShared() {
		return nil, nil
	}
	host, _ := os.Hostname() //nolint:errcheck // it is for display
	m := membership.New(db, log, membership.Options{Host: host, Exit: func() { os.Exit(exitFailure) }})
	return m, m.CheckLease
}

// register registers this server with the shared database. It is the last slow
// step of wire, because from here on the server has to renew its lease.
//
// The process runtime allows only one server: its processes are on one machine,
// below the data directory of one server.
func register(ctx context.Context, c serveConfig, db *store.DB, m *membership.Member) error {
	if c.runtime == "process" {
		if err := db.LockExclusive(ctx); err != nil {
			return fmt.Errorf("the process runtime allows only one server, and another one uses the database: %w", err)
		}
	}
	return m.Register(ctx)
}

// pathPolicy returns the directories in which workloads may keep tenants' state.
// Servers that share a database have no default directory: the others would not
// find the state that one of them keeps there.
func (c serveConfig) pathPolicy(shared bool) snapshot.PathPolicy {
	state := c.stateDir
	if state == "" && !shared {
		state = filepath.Join(c.data, "state")
	}
	return snapshot.PathPolicy{State: state, Dirs: c.stateDirs, Credentials: c.credentialsDir}
}

// requests returns the executor of the requests of hooks.
func (c serveConfig) requests() (*request.Executor, error) {
	redactor := c.redactor
	if redactor == nil {
		redactor = new(request.Redactor)
	}
	return request.New(request.Options{
		Allow: c.hooksAllow, Deny: c.hooksDeny, Own: c.hooksOwn,
		Secrets: request.NewSecrets(c.credentialsDir, redactor), Redactor: redactor,
		Google: new(googleauth.Source), GoogleDefault: c.hooksGCP, GoogleHosts: c.hooksGCPHosts,
	})
}

// executors returns the executors of all kinds of actions.
// handler handles what processes of hooks ask.
func executors(rt runtime.Runtime, requests *request.Executor, keys *seal.Keys, handler func(claim, container string) runtime.RequestHandler, log *slog.Logger) runner.Executors {
	inContainer := parameterExecutor{redactedExecutor{runner.NewCommandExecutor(rt).WithRequests(handler), requests.Redactor()}, keys}
	ofServer := parameterExecutor{requests, keys}
	return runner.Executors{
		hooks.KindCommand: inContainer, hooks.KindScript: inContainer,
		hooks.KindHTTP: ofServer, hooks.KindWebhook: ofServer,
		hooks.KindBuiltin: builtin.NewExecutor(log),
	}
}

// assemble builds the services on a database and a runtime.
func assemble(db *store.DB, rt backend, sinks *snapshot.Sinks, requests *request.Executor, keys *seal.Keys, maxWait time.Duration, log *slog.Logger) *server {
	s := &server{db: db, rt: rt, sinks: sinks, requests: requests, log: log}
	s.metrics = newMetrics()
	s.denials = audit.NewRecorder(db, log)
	s.quotas = quota.New(db, db.QuotaDefaults(), s.metrics.countRefusal)
	actions := executors(rt, requests, keys, func(claim, container string) runtime.RequestHandler {
		return s.inside.OfHook(claim, container)
	}, log)
	hookRunner := runner.New(rt, s.metrics.recorder(db, log), actions, pool.NewCatalog(db))
	checkSink := func(ctx context.Context, cfg *workload.Sync) error {
		_, err := sinks.Open(ctx, cfg)
		return err
	}
	s.pools = pool.New(db, rt, hookRunner, checkSink, log)
	s.pools.Redact(requests.Redactor().Redact)
	s.claims = claim.NewService(db, s.pools, rt, hookRunner, sinks, log)
	s.releases = release.NewService(db, s.claims, s.pools, rt, hookRunner, log)
	s.keeper = inside.NewKeeper(db, rt, log)
	s.claims.Activated, s.claims.Sealer = s.keeper.Activated, keys
	s.delivery = delivery.New(s.metrics.deliveries(db, log), delivery.Options{
		Workloads: s.pools.Catalog, Executors: actions, Attempt: hookRunner.EventAttempt, TestAttempt: hookRunner.TestAttempt,
		OnEnd: s.metrics.countDelivery, WakeFiller: s.pools.WakeFiller, OnTainted: s.destroyIdle, Log: log,
	})
	s.publish = publish.New(db, publish.Options{Touch: s.claims.Touch, OnEvent: s.metrics.countPublished, Log: log})
	s.waits = wait.New(db, wait.Options{
		Claims: db, Workloads: s.pools.Catalog, Runner: hookRunner, MaxTimeout: maxWait, OnEnd: s.metrics.countWait, Log: log,
	})
	s.dryRuns = dryrun.New(func(ctx context.Context, id string) (*workload.Workload, error) {
		w, _, err := s.pools.Catalog.Current(ctx, id)
		return w, err
	}, requests)
	s.memory, s.removals = memory.New(db, log), newRemovals(db, log)
	s.uses = s.metrics.newRecorder(db, rt, log)
	s.claims.StateSync.Transferred = s.metrics.newTransferCounter()
	s.access = access.New(access.Options{
		Claims: claimRecords{db, s.claims}, Workloads: s.pools.Catalog, Runtime: rt, Uses: s.uses, Log: log,
		Gates: s.gates(actions, hookRunner),
	})
	s.schedule = schedule.New(db, s.claims, s.pools, rt, s.releases, log)
	s.events = dispatch.New(db, log, s.pools.EventHandlers(), s.claims.EventHandlers(), s.releases.EventHandlers(), s.schedule.EventHandlers(),
		s.delivery.EventHandlers(), s.keeper.EventHandlers(), s.publish.EventHandlers(), s.waits.EventHandlers(), s.uses.EventHandlers(), s.removalHandlers())
	s.metrics.observe(s.observed())
	return s
}

// claimRecords has the claims for package access.
type claimRecords struct {
	*store.DB
	service *claim.Service
}

// Touch implements access.Claims.
func (r claimRecords) Touch(ctx context.Context, id string) (claim.Claim, error) {
	return r.service.Touch(ctx, id)
}

// destroyIdle has a container destroyed in which a command of an event hook may
// still run. While a claim has the container, its release does that.
func (s *server) destroyIdle(ctx context.Context, container, reason string) error {
	_, err := s.db.UpdateContainer(ctx, pool.BeginDestroy(container, []pool.State{pool.Idle}, reason))
	if errors.Is(err, pool.ErrConflict) {
		return nil
	}
	return err
}

// identity distinguishes this installation's containers from others': the id is
// in their labels, the secret is the key to their shims.
type identity struct {
	id     string
	secret []byte
}

// loadIdentity returns the database's identity, which it creates in a new
// database. It is in the database, so that labels and database always agree.
func loadIdentity(ctx context.Context, db *store.DB) (identity, error) {
	id, err := db.MetaOr(ctx, "installation", uuid.NewString())
	if err != nil {
		return identity{}, err
	}
	secret, err := db.MetaOr(ctx, "secret", hex.EncodeToString(randomBytes(32)))
	if err != nil {
		return identity{}, err
	}
	key, err := hex.DecodeString(secret)
	if err != nil {
		return identity{}, fmt.Errorf("decode the secret in the database: %w", err)
	}
	return identity{id: id, secret: key}, nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) //nolint:errcheck // documented never to fail
	return b
}

// recoverWork resumes the work of a server that has exited. Work that needs the
// engine or may take long is left to the loops.
func (s *server) recoverWork(ctx context.Context, replica string) error {
	owned, err := s.db.OwnedBy(ctx, replica)
	if err != nil {
		return err
	}
	if err := s.claims.Recover(ctx, owned.Claims); err != nil {
		return err
	}
	if err := s.pools.Recover(ctx, owned.Containers); err != nil {
		return err
	}
	if err := s.waits.TakeOver(ctx, owned.Waits); err != nil {
		return err
	}
	if err := s.keeper.Adopt(ctx, replica); err != nil {
		return err
	}
	return s.releases.TakeOver(ctx, owned.Claims, owned.Runs)
}

// runLeaderLoops runs the loops of which only one server's may run, until ctx
// ends: it fills the pools, releases idle claims, delivers events, follows the workload files, and
// prunes old records.
func (s *server) runLeaderLoops(ctx context.Context, c serveConfig) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.pools.Run(ctx) })
	g.Go(func() error { return s.schedule.Run(ctx) })
	g.Go(func() error { return s.delivery.Run(ctx) })
	g.Go(func() error { return s.memory.Run(ctx) })
	g.Go(func() error { return s.uses.RunSweep(ctx) })
	g.Go(func() error { return s.keeper.RunAdoption(ctx) })
	g.Go(func() error { return s.removals.run(ctx, c.retention) })
	g.Go(func() error { return s.followWorkloads(ctx, c.workloads) })
	return g.Wait()
}

// closeAll closes the runtime, the sinks and the database. Containers and claims
// are kept.
func (s *server) closeAll() error {
	s.requests.Close()
	return errors.Join(s.rt.Close(), s.sinks.Close(), s.db.Close())
}

// backend is a runtime that can be closed.
type backend interface {
	runtime.Runtime
	Close() error
}

// guardedBackend is a backend that checks this server's lease.
type guardedBackend struct {
	runtime.Runtime
	io.Closer
}
