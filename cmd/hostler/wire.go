package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/store"
)

// server is everything that serves, wired.
type server struct {
	db       *store.DB
	rt       backend
	sinks    *snapshot.Sinks
	pools    *pool.Pools
	claims   *claim.Service
	releases *release.Service
	metrics  *metrics
	lease    *lease // on a database that servers share
	log      *slog.Logger
}

// wire opens the database and the runtime and builds the services on them.
// Nothing is changed before recover and run.
func wire(ctx context.Context, c serveConfig, log *slog.Logger) (*server, error) {
	if err := os.MkdirAll(c.data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	dsn, err := c.database()
	if err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	log.Info("the database is open", "store", store.Redact(dsn))
	id, err := loadIdentity(ctx, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	var leases leaseGate
	rt, err := openRuntime(ctx, c, id, leases.checkHeld, log)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.SetProtocols(rt.Protocols())
	sinks := snapshot.NewSinks(c.pathPolicy(db.IsShared()))
	if !db.IsShared() {
		return assemble(db, rt, sinks, log), nil
	}
	lease, err := registerReplica(ctx, c, db, log)
	if err != nil {
		return nil, errors.Join(err, rt.Close(), db.Close())
	}
	leases.lease.Store(lease)
	s := assemble(db, fencedRuntime{rt, lease}, sinks, log)
	s.lease = lease
	return s, nil
}

// registerReplica makes this server one of those that use the database. It comes last of
// what may take long: from here on the server has to say that it is alive.
//
// Plain processes are on one machine, below the data directory of one server:
// then there may be no other.
func registerReplica(ctx context.Context, c serveConfig, db *store.DB, log *slog.Logger) (*lease, error) {
	if c.runtime == "process" {
		if err := db.LockExclusive(ctx); err != nil {
			return nil, fmt.Errorf("the process runtime is for one server, and another one uses the database: %w", err)
		}
	}
	host, _ := os.Hostname() //nolint:errcheck // without it every wait is a little longer
	// A data directory that cannot be written costs the same, and no more.
	previous, dead, err := findPreviousServer(c.data, host)
	if err != nil {
		log.Warn("which server used the data directory last is not known: what it had begun waits until its lease is over", "error", err)
	}
	if dead != "" {
		if err := db.MarkDead(ctx, dead); err != nil {
			return nil, err
		}
	}
	l := &lease{previous: previous}
	startedAt := time.Now()
	self, err := db.Register(ctx, host)
	if err != nil {
		return nil, err
	}
	l.renewed(startedAt)
	if err := previous.record(self.ID, host); err != nil {
		log.Warn("after a crash, what this server had begun will wait until its lease is over", "error", err)
	}
	return l, nil
}

// pathPolicy are where workloads may keep tenants' state. Servers that share a
// database have no folder of their own: what one of them kept there the others
// would not find.
func (c serveConfig) pathPolicy(shared bool) snapshot.PathPolicy {
	state := c.stateDir
	if state == "" && !shared {
		state = filepath.Join(c.data, "state")
	}
	return snapshot.PathPolicy{State: state, Dirs: c.stateFolders, Credentials: c.credentialsDir}
}

// assemble builds the services on a database and a runtime.
func assemble(db *store.DB, rt backend, sinks *snapshot.Sinks, log *slog.Logger) *server {
	s := &server{db: db, rt: rt, sinks: sinks, log: log}
	s.metrics = newMetrics(db)
	runner := hooks.NewRunner(rt, s.metrics.recorder(db))
	s.pools = pool.New(db, rt, runner, log)
	s.claims = claim.NewService(db, s.pools, rt, runner, sinks, log)
	s.releases = release.NewService(db, s.claims, s.pools, rt, runner, log)
	return s
}

// identity is what tells this installation's containers from others': the id
// is on their labels, the secret is the key to their shims.
type identity struct {
	id     string
	secret []byte
}

// loadIdentity returns the database's identity, made when it is new. It lives
// in the database, so that a label and the database always agree.
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
		return identity{}, fmt.Errorf("the secret in the database is broken: %w", err)
	}
	return identity{id: id, secret: key}, nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) //nolint:errcheck // documented never to fail
	return b
}

// recoverWork takes up what a server that is no more left. What needs the engine
// or may take long is left to run.
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
	return s.releases.TakeOver(ctx, owned.Claims, owned.Runs)
}

// runLeaderLoops does what one server is enough for, until ctx ends: it keeps the pools,
// releases idle claims, follows the files of workloads, and removes what is old.
func (s *server) runLeaderLoops(ctx context.Context, c serveConfig) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.pools.Run(ctx) })
	g.Go(func() error { return s.releases.Run(ctx) })
	g.Go(func() error { return s.prune(ctx, c.retention) })
	g.Go(func() error {
		if c.workloads == "" {
			return nil
		}
		return s.followWorkloads(ctx, c.workloads)
	})
	return g.Wait()
}

// closeAll lets go of the runtime and the database. Containers and claims stay.
func (s *server) closeAll() error { return errors.Join(s.rt.Close(), s.sinks.Close(), s.db.Close()) }

// backend is a runtime that this server opened.
type backend interface {
	runtime.Runtime
	Close() error
}
