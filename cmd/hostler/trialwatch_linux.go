package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/workload"
)

// watchDebounce is how long the files must not change before they are tried: saving
// one causes several events.
const watchDebounce = 300 * time.Millisecond

// watchFile tries a file, and again whenever it or a seed of it has changed, until
// ctx ends. A failure is on the screen, and the next change follows.
func (o *trialOptions) watchFile(ctx context.Context, cmd *cobra.Command, file string) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", file, err)
	}
	defer watcher.Close() //nolint:errcheck // it ends with the command
	for {
		// Before the files are read, so that no change between the two is lost.
		if err := watchAll(watcher, file); err != nil {
			return err
		}
		code := reportError(o.errOut, o.try(ctx, cmd, file))
		if ctx.Err() != nil {
			return failedTrial(exitInterrupted)
		}
		o.printf("exit status %d; waiting for a change of %s", code, file)
		if err := awaitChange(ctx, watcher, file); err != nil {
			return err
		}
	}
}

// watchAll watches the directory of a file, as editors replace files, and the
// directories of its seeds. A file that cannot be read has none.
func watchAll(watcher *fsnotify.Watcher, file string) error {
	dir := filepath.Dir(file)
	if err := watcher.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	for _, seed := range seedsOf(file) {
		err := filepath.WalkDir(seed, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			return watcher.Add(path)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watch the seed %s: %w", seed, err)
		}
	}
	return nil
}

// seedsOf returns the directories that a workload file refers to.
func seedsOf(file string) []string {
	source, err := workload.ReadFile(file)
	if err != nil {
		return nil
	}
	w, err := workload.Parse(source, file)
	if err != nil {
		return nil
	}
	var all []string
	for _, v := range w.Volumes {
		if v.Seed != "" {
			all = append(all, filepath.Join(filepath.Dir(file), v.Seed))
		}
	}
	return all
}

// isWatched reports whether a change of a path is one of the workload. The
// directory of the file may have others, of which hooks_from needs workload files.
func isWatched(path, file string, seeds []string) bool {
	if ext := filepath.Ext(path); filepath.Clean(path) == filepath.Clean(file) || ext == ".yaml" || ext == ".yml" {
		return true
	}
	for _, seed := range seeds {
		if rel, err := filepath.Rel(seed, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// awaitChange waits for a change, and until the files rest.
func awaitChange(ctx context.Context, watcher *fsnotify.Watcher, file string) error {
	rest := time.NewTimer(watchDebounce)
	rest.Stop()
	defer rest.Stop()
	seeds := seedsOf(file)
	for {
		select {
		case <-ctx.Done():
			return failedTrial(exitInterrupted)
		case e := <-watcher.Events:
			if isWatched(e.Name, file, seeds) && !e.Has(fsnotify.Chmod) {
				rest.Reset(watchDebounce)
			}
		case err := <-watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watch %s: %w", file, err)
			}
			rest.Reset(watchDebounce)
		case <-rest.C:
			if _, err := os.Stat(file); err == nil {
				return nil
			}
			// It was removed to be replaced, and the next event is that.
		}
	}
}
