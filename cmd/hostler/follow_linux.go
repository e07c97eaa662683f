package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// retryDelay is the time between attempts to follow or apply workload files.
const retryDelay = 5 * time.Second

// followedDirectory applies the files of a directory, and records those that it
// cannot apply. It is not safe for concurrent use.
type followedDirectory struct {
	pools    workloadApplier
	record   func(ctx context.Context, set func(*pool.FollowedFiles) []activity.Event) error
	dir      string                     // empty: no directory is followed
	rejected map[string]workload.Change // by file, valid ones that this server does not accept
	warning  string                     // about the directory
	omits    bool                       // it has more files than are followed
	events   eventAllowance
	log      *slog.Logger
}

// eventAllowance bounds the events about files: who writes them could change one ten
// times a second.
type eventAllowance struct {
	since time.Time // when the hour began that is counted
	n     int
}

const maxFollowedEvents = 200 // in an hour

// room returns how many events are allowed now.
func (a *eventAllowance) room(now time.Time) int {
	if now.Sub(a.since).Abs() >= time.Hour {
		*a = eventAllowance{since: now}
	}
	return maxFollowedEvents - a.n
}

// workloadApplier applies workloads.
type workloadApplier interface {
	Workload(ctx context.Context, id string) (pool.Record, error)
	Apply(ctx context.Context, source []byte, file, dir string) (pool.Applied, error)
}

// followWorkloads loads the workload files of a directory and applies their
// changes, until ctx ends. It retries after an error: a lost mount must neither
// stop the server nor drain a pool. For the same reason a removed file does not
// change its workload.
func (s *server) followWorkloads(ctx context.Context, dir string) error {
	f := &followedDirectory{pools: s.pools, record: s.db.UpdateFollowedFiles, rejected: map[string]workload.Change{}, log: s.log}
	if dir == "" {
		f.update(ctx, pool.FollowedFiles{}) // an earlier server may have followed one
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the directory of workloads: %w", err)
	}
	if _, err := os.ReadDir(dir); err != nil {
		return fmt.Errorf("read the directory of workloads: %w", err)
	}
	f.dir = dir
	for {
		watcher := workload.Directory{OnScan: f.scanned}
		err := watcher.Run(ctx, dir, f.applyChange)
		if ctx.Err() != nil {
			return nil
		}
		s.log.Error("watching the workload directory failed; retrying", "wait", retryDelay, "error", err)
		f.warn(ctx, "it cannot be followed: "+err.Error())
		if flow.Sleep(ctx, retryDelay) != nil {
			return nil
		}
	}
}

// applyChange applies a change of a workload file. Validation errors are logged,
// because only the author can fix them; other errors are retried.
func (f *followedDirectory) applyChange(ctx context.Context, c workload.Change) {
	log := f.log.With("file", c.File)
	if c.Err != nil {
		delete(f.rejected, c.File)
		log.Error("workload file not applied", "error", c.Err)
		return
	}
	if c.Workload == nil {
		log.Warn("workload file removed; its workload is kept until it is deleted", "workload", c.ID)
		return
	}
	f.apply(ctx, c)
}

// apply applies a valid file. If this server does not accept it, that is logged
// once and kept.
func (f *followedDirectory) apply(ctx context.Context, c workload.Change) {
	log := f.log.With("file", c.File)
	for {
		err := f.applyFile(ctx, c, log)
		if _, invalid := errors.AsType[workload.ValidationErrors](err); invalid {
			if before := f.rejected[c.File].Err; before == nil || before.Error() != err.Error() {
				log.Error("workload file not applied", "error", err)
			}
			c.Err = err
			f.rejected[c.File] = c
			return
		}
		if err == nil {
			delete(f.rejected, c.File)
			return
		}
		if ctx.Err() != nil {
			return
		}
		log.Error("workload file not applied; retrying", "wait", retryDelay, "error", err)
		if flow.Sleep(ctx, retryDelay) != nil {
			return
		}
	}
}

// applyFile applies a file, unless it is applied already: a restart of the
// server must not undo a drain.
func (f *followedDirectory) applyFile(ctx context.Context, c workload.Change, log *slog.Logger) error {
	record, err := f.pools.Workload(ctx, c.Workload.ID)
	if err == nil && record.Dir == f.dir && c.Workload.IsAppliedAs(record.Source) {
		return nil
	}
	if err != nil && !errors.Is(err, pool.ErrWorkloadNotFound) {
		return err
	}
	applied, err := f.pools.Apply(ctx, c.Workload.Source, c.File, f.dir)
	if err == nil {
		log.Info("workload applied", "workload", applied.Record.ID, "revision", applied.Record.Revision, "changed", applied.Changed)
	}
	return err
}

// scanned tries again what the server did not accept, because the change may have
// been what was missing: a seed, or the workload that it copies hooks from. Then it
// records the files that are not applied.
func (f *followedDirectory) scanned(ctx context.Context, scan workload.Scan) {
	found := pool.FollowedFiles{Dir: f.dir, Omitted: scan.Omitted}
	if (scan.Omitted > 0) != f.omits {
		f.omits = !f.omits
		message := "all workload files are followed again"
		if f.omits {
			message = "too many workload files; the last ones are not followed"
		}
		f.log.Warn(message, "dir", f.dir, "max", workload.MaxFollowedFiles, "not_followed", scan.Omitted)
	}
	if len(scan.Files) == 0 {
		found.Warning = emptyDirectoryWarning(f.dir)
	}
	for _, c := range scan.Invalid {
		found.Invalid = append(found.Invalid, pool.NewInvalidFile(c.File, c.ID, c.Err))
		delete(f.rejected, c.File)
	}
	for _, file := range slices.Sorted(maps.Keys(f.rejected)) {
		if !slices.Contains(scan.Files, file) {
			delete(f.rejected, file)
			continue
		}
		f.apply(ctx, f.rejected[file])
		if c, still := f.rejected[file]; still {
			found.Invalid = append(found.Invalid, pool.NewInvalidFile(file, c.ID, c.Err))
		}
	}
	if found.Warning != "" && found.Warning != f.warning {
		f.log.Warn("the directory of workload files", "dir", f.dir, "warning", found.Warning)
	}
	f.warning = found.Warning
	f.update(ctx, found)
}

// maxHintDirs bounds what is looked at for a hint.
const maxHintDirs = 100

// emptyDirectoryWarning returns what to look at when a directory has no workload file.
func emptyDirectoryWarning(dir string) string {
	const warning = "it has no workload file: *.yaml and *.yml directly in it are loaded, those of its directories are not"
	var below []string
	list, _ := os.ReadDir(dir) //nolint:errcheck // it is for a hint, and was read just before
	for _, e := range list[:min(len(list), maxHintDirs)] {
		if len(below) == 3 {
			break
		}
		sub := filepath.Join(dir, e.Name())
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if files, err := workload.Files(sub); err == nil && len(files) > 0 {
			below = append(below, sub)
		}
	}
	if len(below) == 0 {
		return warning
	}
	return warning + "; there are some in " + strings.Join(below, ", ")
}

// update records what was found. It retries until that is on record, or ctx ends.
func (f *followedDirectory) update(ctx context.Context, found pool.FollowedFiles) {
	room, n := f.events.room(time.Now()), 0
	f.retry(ctx, func(r *pool.FollowedFiles) []activity.Event {
		events := r.Update(found, room)
		n = len(events)
		return events
	})
	if f.events.n += n; n > 0 && n == room {
		f.log.Warn("more workload files were found broken than have events in an hour; doctor has all of them", "dir", f.dir, "events", maxFollowedEvents)
	}
}

// warn records what is wrong with the directory, and no change of its files.
func (f *followedDirectory) warn(ctx context.Context, warning string) {
	f.retry(ctx, func(r *pool.FollowedFiles) []activity.Event {
		r.Dir, r.Warning = f.dir, warning
		return nil
	})
}

func (f *followedDirectory) retry(ctx context.Context, set func(*pool.FollowedFiles) []activity.Event) {
	for {
		err := f.record(ctx, set)
		if err == nil || ctx.Err() != nil {
			return
		}
		f.log.Error("recording the workload files failed; retrying", "wait", retryDelay, "error", err)
		if flow.Sleep(ctx, retryDelay) != nil {
			return
		}
	}
}
