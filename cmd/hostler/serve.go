package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/workload"
)

// How a server ends. Answers, releases and uploads under way get drain; then
// claims in the making are told to undo what they did, releases and uploads are
// cut off, and get settle for that. What has not ended after parting is left as
// it is.
const (
	drainTimeout = 20 * time.Second
	undoTimeout  = 20 * time.Second
	exitTimeout  = 5 * time.Second
)

// errStopped is why a claim fails that was in the making when the server was
// told to stop, and why a release is not finished by this one.
var errStopped = errors.New("the server is stopping")

func newServeCmd() *cobra.Command {
	var c serveConfig
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server: keep the pools, serve the API, follow the workload files.

Every flag is also an environment variable (HOSTLER_LISTEN for --listen) and a
key of the file given with --config. SIGTERM and SIGINT stop the server; its
containers and claims stay, and the next server takes them up again.`,
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
			return serve(ctx, c, newLogger(cmd.ErrOrStderr(), c))
		},
	}
	c.flags(cmd.Flags())
	return cmd
}

// newLogger writes for people on a terminal and for machines elsewhere.
func newLogger(w io.Writer, c serveConfig) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {
		level = slog.LevelInfo
	}
	if c.logFormat == "text" || c.logFormat == "auto" && isTerminal(w) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, NoColor: !isTerminal(w)}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}

// serve runs a server until ctx ends.
func serve(ctx context.Context, c serveConfig, log *slog.Logger) error {
	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return fmt.Errorf("listen: %w; choose another address with --listen", err)
	}
	defer listener.Close()
	keys, err := keysFor(c, listener.Addr(), log)
	if err != nil {
		return err
	}
	s, err := wire(ctx, c, log)
	if err != nil {
		return err
	}
	err = s.serve(ctx, c, listener, keys)
	return errors.Join(err, s.closeAll())
}

// keysFor reads the API keys. Without any, only this machine may be served.
func keysFor(c serveConfig, addr net.Addr, log *slog.Logger) (*api.Keys, error) {
	if c.apiKeyFile != "" {
		return api.ReadKeys(c.apiKeyFile)
	}
	if tcp, ok := addr.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil, fmt.Errorf("serving on %s without API keys would give everybody in reach every container: "+
			"name a file of keys with --api-key-file, or listen on 127.0.0.1", addr)
	}
	log.Warn("no API keys: every program and user of this machine may use the API; name keys with --api-key-file")
	return nil, nil
}

// serve runs the loops and the API until ctx ends, and then ends in order:
// no new requests, the answers under way, the claims in the making and the
// releases, the loops.
func (s *server) serve(ctx context.Context, c serveConfig, listener net.Listener, keys *api.Keys) error {
	defer listener.Close() // it may come to an end before anybody serves
	if !s.db.IsShared() {
		// Whoever had the file before has let go of it, and of all it was doing.
		if err := s.recoverWork(ctx, s.db.Self()); err != nil {
			return fmt.Errorf("take up what an earlier server left: %w", err)
		}
	}
	handler := api.New(s.apiOptions(keys, c.data))
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	server := api.NewServer(handler, s.log)
	stopping := make(chan struct{})

	g, gctx := errgroup.WithContext(loops)
	g.Go(func() error { return s.claims.Run(gctx) })
	g.Go(func() error { return s.releases.RunResumes(gctx) })
	g.Go(func() error {
		if s.db.IsShared() {
			return s.runShared(gctx, c)
		}
		return s.runLeaderLoops(gctx, c)
	})
	g.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the API: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		defer stopLoops()
		select {
		case <-ctx.Done():
		case <-gctx.Done():
		}
		close(stopping)
		return s.stopAPI(context.WithoutCancel(ctx), handler, server)
	})
	s.log.Info("serving", "address", "http://"+listener.Addr().String(), "data", c.data, "version", version())
	err := s.awaitStopped(g, stopping)
	if s.db.IsShared() {
		err = errors.Join(err, s.deregister(ctx))
	}
	// The database comes first: what a runtime that is let go of says of a hook
	// under way is not how that hook ended.
	return errors.Join(err, s.db.Close())
}

// stopAPI ends the API: streams at once, answers when they are given, or too late.
func (s *server) stopAPI(ctx context.Context, handler *api.API, server *http.Server) error {
	s.log.Info("stopping; containers and claims stay")
	handler.Close()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout+undoTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		s.log.Warn("requests under way did not end, and have no answer", "error", err)
		return server.Close()
	}
	return nil
}

// awaitStopped returns when all that the server does has ended, and soon after it is
// stopping in any case. A hook may take longer than anybody waits for a server:
// it runs on in its container, as if the server were killed, and the next one
// asks for its outcome.
func (s *server) awaitStopped(g *errgroup.Group, stopping <-chan struct{}) error {
	all := make(chan error, 1)
	go func() { all <- g.Wait() }() // it ends with the process at the latest
	<-stopping
	defer s.renewWhileStopping()()
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
	s.log.Warn("not all that was under way has ended; the next server takes it up")
	return nil
}

// apiOptions is what the API serves.
func (s *server) apiOptions(keys *api.Keys, data string) api.Options {
	return api.Options{
		Workloads: s.pools, Pools: s.pools, Containers: s.pools,
		Claimer: countedClaims{s.claims, s.metrics}, Releaser: countedReleases{s.releases, s.metrics},
		Claims: s.db, State: s.claims, Doctor: s.doctor(data), Events: s.db, Runs: s.db,
		// Fenced, closed or stopped, another server answers, or this one when it is back.
		StorageUnavailable: []error{store.ErrUnavailable, store.ErrLocked, store.ErrDiskFull, store.ErrFenced, store.ErrClosed, errStopped},
		Ready: func(ctx context.Context) error {
			// Of no container there is: what it costs does not grow with the pools.
			if _, err := s.rt.Status(ctx, uuid.Nil.String()); err != nil && !errors.Is(err, runtime.ErrNotFound) {
				return err
			}
			_, err := s.db.LastSeq(ctx)
			return err
		},
		Metrics: s.metrics.handler(), Keys: keys, Version: version(), Log: s.log,
	}
}

// followWorkloads loads the workload files of a directory and applies their changes,
// until ctx ends. A directory that cannot be followed is tried again: a lost
// mount must neither stop the server nor drain a pool, so that a file which is
// removed leaves its workload as it is.
func (s *server) followWorkloads(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the directory of workloads: %w", err)
	}
	if _, err := os.ReadDir(dir); err != nil {
		return fmt.Errorf("read the directory of workloads: %w", err)
	}
	for {
		var watcher workload.Directory
		err := watcher.Run(ctx, dir, func(ctx context.Context, c workload.Change) { s.applyChange(ctx, dir, c) })
		if ctx.Err() != nil {
			return nil
		}
		s.log.Error("the directory of workloads cannot be followed and is tried again", "wait", retryDelay, "error", err)
		if flow.Sleep(ctx, retryDelay) != nil {
			return nil
		}
	}
}

// retryDelay is how long to wait before what failed is tried once more.
const retryDelay = 5 * time.Second

// applyChange does what a change of a workload file asks for. Faults are the
// author's to mend; anything else is tried again until it is done.
func (s *server) applyChange(ctx context.Context, dir string, c workload.Change) {
	log := s.log.With("file", c.File)
	if c.Err != nil {
		log.Error("a workload file is not applied", "error", c.Err)
		return
	}
	if c.Workload == nil {
		log.Warn("a workload file is gone; its workload stays until it is deleted", "workload", c.ID)
		return
	}
	for {
		err := s.applyFile(ctx, dir, c, log)
		if _, faulty := errors.AsType[workload.ValidationErrors](err); err == nil || faulty || ctx.Err() != nil {
			if err != nil {
				log.Error("a workload file is not applied", "error", err)
			}
			return
		}
		log.Error("a workload file is not applied yet", "wait", retryDelay, "error", err)
		if flow.Sleep(ctx, retryDelay) != nil {
			return
		}
	}
}

// applyFile applies a file, unless it is what is applied already: a server
// that starts again must not undo a drain.
func (s *server) applyFile(ctx context.Context, dir string, c workload.Change, log *slog.Logger) error {
	record, err := s.pools.Workload(ctx, c.Workload.ID)
	if err == nil && record.Dir == dir && bytes.Equal(record.Source, c.Workload.Source) {
		return nil
	}
	if err != nil && !errors.Is(err, pool.ErrWorkloadNotFound) {
		return err
	}
	applied, err := s.pools.Apply(ctx, c.Workload.Source, c.File, dir)
	if err == nil {
		log.Info("workload applied", "workload", applied.Record.ID, "revision", applied.Record.Revision, "changed", applied.Changed)
	}
	return err
}

// pruneInterval is how often what is too old is removed.
const pruneInterval = time.Hour

// prune removes what is older than the retention, now and then, until ctx ends.
func (s *server) prune(ctx context.Context, retention time.Duration) error {
	if retention == 0 {
		return nil
	}
	ticker := time.NewTicker(pruneInterval)
	defer ticker.Stop()
	for {
		before := time.Now().Add(-retention)
		if _, err := s.db.Prune(ctx, store.Retention{Before: before}); err != nil && ctx.Err() == nil {
			s.log.Error("remove what is older than the retention", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

var _ api.Pools = (*pool.Pools)(nil)
