package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/membership"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/workload"
)

func newRestoreDatabaseCmd() *cobra.Command {
	var r remote
	var c serveConfig
	cmd := &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Replace the database with a copy",
		Long: `Replace the database in the data directory with a copy from "hostler backup". The
replaced database is kept next to it. No server may run. Without FILE the
database is not replaced: it was restored by other means, such as pg_restore, to
the store that --store or --store-file names.

A copy has no records of later changes. So the containers that were idle when it
was made are discarded, and claims on pools with reuse: wipe end: another tenant
may have had their containers since. Claims on other pools are kept, with their
containers. When the server starts, it removes containers that were created
later, detects those that no longer exist, and fills the pools.`,
		Example: "  hostler restore /backup/hostler-2026-01-02.db",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.checkArguments(); err != nil {
				return usagef(cmd, "%v", err)
			}
			if len(args) == 1 && (c.store != sqlite || c.storeFile != "") {
				return usagef(cmd, "FILE can replace only a SQLite database")
			}
			dsn, err := c.database()
			if err != nil {
				return err
			}
			done, err := restore(cmd.Context(), dsn, args)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), done, func(w io.Writer) error { return printRestored(w, done) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.data, "data", firstOf(os.Getenv("HOSTLER_DATA"), defaultData()), "the server's data directory")
	f.StringVar(&c.store, "store", sqlite, "where records are stored: sqlite, a file in the data directory, or postgres://USER@HOST/DATABASE")
	f.StringVar(&c.storeFile, "store-file", "", "file with the store's URL, for a URL with a password")
	r.outputFlag(cmd)
	return cmd
}

// restoreResult is the result of a restore.
type restoreResult struct {
	Replaced            string `json:"replaced,omitempty"`
	ContainersDiscarded int    `json:"containers_given_up"`
	ClaimsEnded         int    `json:"claims_ended"`
	ClaimsKept          int    `json:"claims_standing"`
}

func printRestored(w io.Writer, done restoreResult) error {
	if done.Replaced != "" {
		if _, err := fmt.Fprintf(w, "the replaced database is kept as %s\n", done.Replaced); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "restored: %d containers discarded, %d claims ended, %d claims kept\n", done.ContainersDiscarded, done.ClaimsEnded, done.ClaimsKept)
	return err
}

// restore replaces the database with the copy, if there is one, and invalidates
// the records that may be outdated. It can be repeated after an interruption.
func restore(ctx context.Context, dsn string, copies []string) (done restoreResult, err error) {
	for _, from := range copies {
		if done.Replaced, err = store.Restore(ctx, from, dsn); err != nil {
			return done, err
		}
	}
	if path := strings.TrimPrefix(dsn, "sqlite:"); !strings.Contains(path, "://") {
		// Opening would create a new one.
		if _, err := os.Stat(path); err != nil {
			return done, &exitError{exitNotFound, fmt.Errorf("find the database: %w", err)}
		}
	}
	db, err := store.Open(ctx, dsn)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetProtocols(shim.Protocols())
	if err := checkUnused(ctx, db); err != nil {
		return done, err
	}
	if err := invalidateClaims(ctx, db, &done); err != nil {
		return done, err
	}
	return done, invalidateContainers(ctx, db, &done)
}

// checkUnused returns an error if a server uses the database. A database file is
// locked already by Open. Its replica records do not count: in a copy, servers
// that have exited look alive.
func checkUnused(ctx context.Context, db *store.DB) error {
	if !db.IsShared() {
		return nil
	}
	if err := db.LockExclusive(ctx); err != nil {
		return err
	}
	n, err := db.CountLive(ctx)
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: %d servers; stop them, and wait %s if one was killed", store.ErrInUse, n, membership.LeaseTime)
	}
	return err
}

// restoredReason is the reason of destroyed containers and ended claims.
const restoredReason = "the database was restored from a copy, which has no later changes"

// invalidateContainers discards containers that are idle or being created in the
// copy: they may have had any tenant since.
func invalidateContainers(ctx context.Context, db *store.DB, done *restoreResult) error {
	from := []pool.State{pool.Creating, pool.Idle}
	waiting, err := db.Containers(ctx, pool.ContainerFilter{States: from})
	if err != nil {
		return err
	}
	for _, c := range waiting {
		if _, err := db.UpdateContainer(ctx, pool.BeginDestroy(c.ID, from, restoredReason)); err != nil {
			return fmt.Errorf("discard container %s: %w", c.ID, err)
		}
		done.ContainersDiscarded++
	}
	return nil
}

// invalidateClaims ends the claims whose containers another tenant may have had
// since. Where no other tenant ever gets a container, it keeps them.
func invalidateClaims(ctx context.Context, db *store.DB, done *restoreResult) error {
	live, err := db.Claims(ctx, claim.Filter{})
	if err != nil {
		return err
	}
	catalog := pool.NewCatalog(db)
	for _, c := range live {
		w, _, err := catalog.Current(ctx, c.Workload)
		if err != nil && !errors.Is(err, pool.ErrWorkloadNotFound) {
			return err
		}
		if err == nil && w.Pool.Reuse != workload.ReuseWipe && c.State != claim.Pending {
			done.ClaimsKept++
			continue
		}
		if err := endClaim(ctx, db, c); err != nil {
			return fmt.Errorf("end claim %s: %w", c.ID, err)
		}
		done.ClaimsEnded++
	}
	return nil
}

// endClaim ends a claim with its container. A pending claim fails: no caller
// waits for its response any more.
func endClaim(ctx context.Context, db *store.DB, c claim.Claim) error {
	end := claim.End(c.ID, c.State, restoredReason)
	destroy := pool.BeginDestroy("", []pool.State{pool.Creating, pool.Claimed}, restoredReason)
	end.Container = &destroy
	_, err := db.UpdateClaim(ctx, end)
	return err
}
