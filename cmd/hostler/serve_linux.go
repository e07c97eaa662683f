package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/membership"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// Shutdown timeouts. Requests, releases and uploads in progress get drainTimeout
// to finish. Then pending claims are undone, releases and uploads are canceled,
// and get undoTimeout for that. What has not ended after exitTimeout is
// abandoned; the next server resumes it.
const (
	drainTimeout = 20 * time.Second
	undoTimeout  = 20 * time.Second
	exitTimeout  = 5 * time.Second
)

// errStopped is the cause when a pending claim or a release is canceled because
// the server stops.
var errStopped = errors.New("the server is stopping")

func newServeCmd() *cobra.Command {
	var c serveConfig
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server: fill the pools, serve the API, follow the workload files.

Every flag is also an environment variable (HOSTLER_LISTEN for --listen) and a
key of the file given with --config, where a list is a list of YAML or a text
with commas. SIGTERM and SIGINT stop the server; its containers and claims are
kept, and the next server resumes them. SIGHUP does nothing: files of keys,
certificates and workloads are followed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.checkArguments(); err != nil {
				return usagef(cmd, "%v", err)
			}
			if err := fillFlags(cmd, os.Getenv); err != nil {
				return err
			}
			if err := c.check(); err != nil {
				return usagef(cmd, "%v", err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			// It reloads nothing: every file is followed. It is not ignored by the
			// kernel, because the programs that this one starts would inherit that.
			hangup := make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			c.redactor = new(request.Redactor)
			log := newLogger(cmd.ErrOrStderr(), c)
			stdlog.SetFlags(0)
			stdlog.SetOutput(standardLog{log})
			limitMemory("/", debug.SetMemoryLimit)
			return serve(ctx, c, log)
		},
	}
	c.flags(cmd.Flags())
	completeWords(cmd, "runtime", slices.Sorted(maps.Keys(backends))...)
	completeWords(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}

// newLogger returns a logger that writes text on a terminal and JSON elsewhere.
func newLogger(w io.Writer, c serveConfig) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {
		level = slog.LevelInfo
	}
	if c.logFormat == "text" || c.logFormat == "auto" && isTerminal(w) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, NoColor: !isTerminal(w), ReplaceAttr: c.redactAttr}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: c.redactAttr}))
}

// serve runs a server until ctx ends.
func serve(ctx context.Context, c serveConfig, log *slog.Logger) error {
	listener, err := listen(c, log)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := checkOpen(c.isNew(), listener.tcp.Addr(), slog.New(slog.DiscardHandler)); err != nil {
		return err // before a database is created
	}
	s, err := wire(ctx, c, log)
	if err != nil {
		return err
	}
	if err = checkOpen(s.credentials.IsOpen(), listener.tcp.Addr(), log); err == nil {
		err = s.serve(ctx, c, listener)
	}
	return errors.Join(err, s.closeAll())
}

// serve runs the loops and the API until ctx ends, and then stops in order: new
// requests, requests in progress, pending claims and releases, the loops.
func (s *server) serve(ctx context.Context, c serveConfig, listener *listeners) error {
	defer listener.Close() // for a return before Serve, which closes it too
	s.listener = listener
	s.metrics.observeConnections(listener.connections)
	handler := api.New(s.apiOptions(c.data))
	s.inside = s.insideRequests(handler)
	if !s.db.IsShared() {
		// The database file is locked, so an earlier server has exited.
		if err := s.recoverWork(ctx, s.db.Self()); err != nil {
			return fmt.Errorf("resume the work of an earlier server: %w", err)
		}
	}
	stopRenewing := s.renewLease(ctx)
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	server := listener.newServer(handler, s.log)
	stopping := make(chan struct{})

	g, gctx := errgroup.WithContext(loops)
	s.runLoops(gctx, g, c)
	listener.run(gctx, g, server)
	g.Go(func() error {
		defer stopLoops()
		select {
		case <-ctx.Done():
		case <-gctx.Done():
		}
		close(stopping)
		return s.stopAPI(context.WithoutCancel(ctx), handler, server)
	})
	s.log.Info("serving", "address", listener.url(), "data", c.data, "version", version())
	err := s.awaitStopped(g, stopping)
	stopRenewing()
	if s.member != nil {
		err = errors.Join(err, s.member.Leave(ctx))
	}
	// The database is closed first: a closed runtime reports an outcome of a
	// running hook that is not the hook's, which must not be recorded.
	return errors.Join(err, s.db.Close())
}

// runLoops starts the loops of every server, which end with ctx.
func (s *server) runLoops(ctx context.Context, g *errgroup.Group, c serveConfig) {
	g.Go(func() error { return s.events.Run(ctx) })
	g.Go(func() error { return s.pools.Engine.Run(ctx) })
	g.Go(func() error { return s.claims.Run(ctx) })
	g.Go(func() error { return s.keeper.Run(ctx, s.inside) })
	g.Go(func() error { return s.schedule.RunResumes(ctx) })
	g.Go(func() error { return s.waits.Run(ctx) })
	g.Go(func() error { return s.uses.Run(ctx) })
	g.Go(func() error { return s.denials.Run(ctx) })
	g.Go(func() error { return s.credentials.Run(ctx) })
	g.Go(func() error { return s.lead(ctx, c) })
}

// renewLease renews this server's lease until the returned function is called,
// which waits for the last renewal: also while the server stops, because another
// one would take over work that is still running.
func (s *server) renewLease(ctx context.Context) (stop func()) {
	if s.member == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { // it ends when stop is called
		defer close(done)
		s.member.Renew(ctx)
	}()
	return func() { cancel(); <-done }
}

// lead runs the loops of which only one server's may run, until ctx ends: at
// once, or, when servers share the database, while this one leads.
func (s *server) lead(ctx context.Context, c serveConfig) error {
	if s.member == nil {
		return s.runLeaderLoops(ctx, c)
	}
	if c.workloads != "" { // a missing directory is an error at once, not only when this server leads
		if _, err := os.ReadDir(c.workloads); err != nil {
			return fmt.Errorf("read the directory of workloads: %w", err)
		}
	}
	return s.member.Run(ctx, membership.Callbacks{
		OnLead:   func(ctx context.Context) error { return s.runLeaderLoops(ctx, c) },
		TakeOver: s.recoverWork,
	})
}

// stopAPI stops the API: streams at once, requests when they are answered or the
// timeout expires.
func (s *server) stopAPI(ctx context.Context, handler *api.API, server *http.Server) error {
	s.log.Info("stopping; containers and claims are kept")
	handler.Close()
	s.waits.Close()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout+undoTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		s.log.Warn("requests did not finish before the shutdown deadline", "error", err)
		return server.Close()
	}
	return nil
}

// awaitStopped waits until all goroutines of the server have ended, or until the
// shutdown timeouts have expired. A hook may take longer than that: it continues
// in its container, as if the server were killed, and the next server requests
// its outcome.
func (s *server) awaitStopped(g *errgroup.Group, stopping <-chan struct{}) error {
	all := make(chan error, 1)
	go func() { all <- g.Wait() }() // it ends with the group, or with the process
	<-stopping
	select {
	case err := <-all:
		return err
	case <-time.After(drainTimeout):
	}
	s.releases.Close(errStopped)
	s.claims.Close(errStopped)
	select {
	case err := <-all:
		return err
	case <-time.After(undoTimeout + exitTimeout):
	}
	s.log.Warn("shutdown deadline exceeded; remaining work will be resumed")
	return nil
}

// apiOptions returns the options of the API.
func (s *server) apiOptions(data string) api.Options {
	return api.Options{
		Workloads: s.pools, Pools: s.pools, Containers: s.pools,
		Claimer: countedClaims{s.claims, s.metrics, s.db.Workload}, Releaser: countedReleases{s.releases, s.metrics},
		Claims: s.db, State: sizedState{s.claims, s.db, s.log}, Quotas: s.quotas, Doctor: s.doctor(data), Events: s.db, Runs: s.db,
		Deliveries: s.delivery, Publisher: s.publish, DryRuns: s.dryRuns, Memory: s.memory, Waits: s.waits,
		Access: s.access, Files: s.access, Ports: s.access, PortDomain: s.ports, Denials: s.denials,
		// A caller retries: another server answers, or this one after its restart.
		StorageUnavailable: []error{store.ErrUnavailable, store.ErrLocked, store.ErrDiskFull, membership.ErrFenced, store.ErrClosed, errStopped},
		Ready: func(ctx context.Context) error {
			if err := s.pools.Engine.Probe(ctx); err != nil {
				return err
			}
			_, err := s.db.LastSeq(ctx)
			return err
		},
		EngineBound: s.pools.Engine.Bound,
		LiveOutput:  liveOutput{s.rt, s.db.Claim, s.requests.Redactor(), s.log}.add,
		Metrics:     s.metrics.handler(), OnRequest: s.metrics.newRequestCounter(), OnFollower: s.metrics.newFollowerGauge(), Auth: s.authenticator(), Keys: s.credentials, Bindings: s.credentials, Version: version(), Log: s.log,
	}
}

var _ api.Pools = (*pool.Pools)(nil)
