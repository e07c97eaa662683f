package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// debounceDelay is how long after the first sign of a change the folder is read:
	// saving one file makes several signs.
	debounceDelay = 100 * time.Millisecond
	// removalDelay is how long a missed file has to come back.
	removalDelay = time.Second
)

// Run tells every change of a directory, one after another, beginning with all
// that Load has not returned, until ctx ends (nil) or the directory can no
// longer be followed. What apply does takes place before the next change is looked
// for, and no change is lost meanwhile.
//
// The directory itself is watched, not its files: so files that are replaced, and
// those behind a link in it that is switched, are followed too. What a
// link to a file elsewhere leads to is not.
func (f *Directory) Run(ctx context.Context, dir string, apply func(context.Context, Change)) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	defer watcher.Close() // ends its goroutine; the error says nothing of use
	if err := watcher.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	// The first look comes after the watch has begun, so that nothing can
	// happen between the two.
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
			// Only the first sign sets the timer: a file that is written all the
			// time must not put the look off for ever.
			if !due {
				scanTimer.Reset(debounceDelay)
				due = true
			}
		case err := <-watcher.Errors:
			// Too many signs to keep: which files they were does not matter.
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
			if due = f.hasMissing(); due {
				scanTimer.Reset(removalDelay)
			}
		}
	}
}
