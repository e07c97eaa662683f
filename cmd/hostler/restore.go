package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
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
		Short: "Put a copy of the database in the place of the one that is there",
		Long: `Put a copy that "hostler backup" made in the place of the database in the data
directory; the one that is there is kept beside it. No server may run. Without
FILE the database stays as it is, and was restored by other means, such as
pg_restore, to the store that --store or --store-file names.

A copy does not know what has happened since. So the containers that waited when
it was made are given up, and claims on pools with reuse: wipe end: another
tenant may have their containers by now. Claims on other pools stand, with their
containers. When the server starts, it removes containers that were made since,
notices those that are gone, and fills the pools.`,
		Example: "  hostler restore /backup/hostler-2026-01-02.db",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.checkArguments(); err != nil {
				return usagef(cmd, "%v", err)
			}
			if len(args) == 1 && (c.store != sqlite || c.storeFile != "") {
				return usagef(cmd, "a FILE takes the place of an SQLite database only")
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
	f.StringVar(&c.store, "store", sqlite, "where records are kept: sqlite, a file in the data directory, or postgres://USER@HOST/DATABASE")
	f.StringVar(&c.storeFile, "store-file", "", "file with the store's URL, for one that has a password in it")
	r.outputFlag(cmd)
	return cmd
}

// restoreResult is what a restore has done.
type restoreResult struct {
	Replaced            string `json:"replaced,omitempty"`
	ContainersDiscarded int    `json:"containers_given_up"`
	ClaimsEnded         int    `json:"claims_ended"`
	ClaimsKept          int    `json:"claims_standing"`
}

func printRestored(w io.Writer, done restoreResult) error {
	if done.Replaced != "" {
		if _, err := fmt.Fprintf(w, "what was there is kept as %s\n", done.Replaced); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "restored: %d waiting containers given up, %d claims ended, %d claims stand\n", done.ContainersDiscarded, done.ClaimsEnded, done.ClaimsKept)
	return err
}

// restore puts the copy in place, if one is named, and makes the database fit
// to be served from. It can be done again after any of it.
func restore(ctx context.Context, dsn string, copies []string) (done restoreResult, err error) {
	for _, from := range copies {
		if done.Replaced, err = store.Restore(ctx, from, dsn); err != nil {
			return done, err
		}
	}
	if path := strings.TrimPrefix(dsn, "sqlite:"); !strings.Contains(path, "://") {
		// Opening would make a new one.
		if _, err := os.Stat(path); err != nil {
			return done, &exitError{exitNotFound, fmt.Errorf("look for the database: %w", err)}
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

// checkUnused is nil when no server uses the database. That of a file has been
// locked already; in a copy of one, servers seem to live that do not.
func checkUnused(ctx context.Context, db *store.DB) error {
	if !db.IsShared() {
		return nil
	}
	if err := db.LockExclusive(ctx); err != nil {
		return err
	}
	n, err := db.CountLive(ctx)
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: %d of them; stop them, and wait for %s when one was killed", store.ErrInUse, n, store.LeaseTime)
	}
	return err
}

// restoredReason is why something is given up.
const restoredReason = "the database was restored from a copy, and what happened since is not known"

// invalidateContainers gives up what waits: it may have had any tenant since.
func invalidateContainers(ctx context.Context, db *store.DB, done *restoreResult) error {
	from := []pool.State{pool.Creating, pool.Idle}
	waiting, err := db.Containers(ctx, pool.ContainerFilter{States: from})
	if err != nil {
		return err
	}
	for _, c := range waiting {
		if _, err := db.UpdateContainer(ctx, pool.BeginDestroy(c.ID, from, restoredReason)); err != nil {
			return fmt.Errorf("give container %s up: %w", c.ID, err)
		}
		done.ContainersDiscarded++
	}
	return nil
}

// invalidateClaims ends the claims whose containers another tenant may have by
// now. Where no other tenant ever gets a container, they stand.
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

// endClaim ends a claim with its container. Nobody waits for the answer of one
// that was being made.
func endClaim(ctx context.Context, db *store.DB, c claim.Claim) error {
	to, event := claim.Released, activity.ClaimReleased
	if c.State == claim.Pending {
		to, event = claim.Failed, activity.ClaimFailed
	}
	now := time.Now().UTC()
	destroy := pool.BeginDestroy("", []pool.State{pool.Creating, pool.Claimed}, restoredReason)
	_, err := db.UpdateClaim(ctx, claim.Transition{
		ID: c.ID, From: []claim.State{c.State}, To: to, Container: &destroy,
		Set:    func(c *claim.Claim) { c.Reason, c.ReleasedAt, c.RetryAt = restoredReason, &now, nil },
		Events: []activity.Event{{Type: event, Message: "claim is ended: " + restoredReason}},
	})
	return err
}
