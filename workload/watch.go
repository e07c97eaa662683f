package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// debounceDelay is the delay between the first event and the scan: saving one
	// file causes several events.
	debounceDelay = 100 * time.Millisecond
	// removalDelay is the delay until a missing file counts as removed.
	removalDelay = time.Second
)

// Run calls apply for every change of a directory, one after another, beginning
// with those that Load has not returned. It returns nil when ctx ends, or an
// error if the directory cannot be watched any more. No change is lost while
// apply runs.
//
// Run watches the directory, not its files, so it also detects files that are
// replaced, and files behind a link in the directory that is switched. It does
// not detect changes behind a link to a file elsewhere.
func (f *Directory) Run(ctx context.Context, dir string, apply func(context.Context, Change)) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	defer watcher.Close() // ends its goroutine; the error is not useful
	if err := watcher.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	// The first scan follows the start of the watch, so that no change between
	// the two is lost.
	scanTimer := time.NewTimer(0)
	defer scanTimer.Stop()
	due := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-watcher.Events:
			if !ok {
				return fmt.Errorf("watch %s: the watch has ended", dir)
			}
			// Only the first event sets the timer: a file that is written
			// continuously must not delay the scan indefinitely.
			if !due {
				scanTimer.Reset(debounceDelay)
				due = true
			}
		case err := <-watcher.Errors:
			// Events were dropped. That does not matter: the scan reads all files.
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watch %s: %w", dir, err)
			}
			scanTimer.Reset(debounceDelay)
			due = true
		case <-scanTimer.C:
			changes, err := f.scan(dir)
			if err != nil {
				return err
			}
			for _, c := range changes {
				apply(ctx, c)
			}
			if f.OnScan != nil {
				f.OnScan(ctx, f.result())
			}
			if due = f.hasMissing(); due {
				scanTimer.Reset(removalDelay)
			}
		}
	}
}
