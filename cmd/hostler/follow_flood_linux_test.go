package main

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// An author who breaks a file in another way ten times a second does not fill the log
// of events: there are so many in an hour, and then more.
func TestFollowedFilesDoNotFlood(t *testing.T) {
	var record pool.FollowedFiles
	events, changes := 0, 0
	f := &followedDirectory{dir: "/d", log: slog.New(slog.DiscardHandler), record: func(_ context.Context, set func(*pool.FollowedFiles) []activity.Event) error {
		events += len(set(&record))
		return nil
	}}
	change := func() {
		changes++
		err := workload.ValidationErrors{{Field: "image", Message: fmt.Sprintf("is %d", changes)}}
		f.scanned(t.Context(), workload.Scan{Files: []string{"/d/a.yaml"}, Invalid: []workload.Change{{File: "/d/a.yaml", Err: err}}})
	}
	for range 1000 {
		change()
	}
	require.Equal(t, maxFollowedEvents, events)
	require.Equal(t, "is 1000", record.Invalid[0].Faults[0].Message)
	f.events.since = f.events.since.Add(-time.Hour)
	change()
	require.Equal(t, maxFollowedEvents+1, events)
}

// Files beyond the bound of a directory are on record, with one event.
func TestOmittedFilesAreOnRecord(t *testing.T) {
	var record pool.FollowedFiles
	var events []activity.Event
	f := &followedDirectory{dir: "/d", log: slog.New(slog.DiscardHandler), record: func(_ context.Context, set func(*pool.FollowedFiles) []activity.Event) error {
		events = append(events, set(&record)...)
		return nil
	}}
	scan := workload.Scan{Files: []string{"/d/a.yaml"}, Omitted: 7, Invalid: []workload.Change{{File: "/d/z.yaml", Err: fmt.Errorf("is not followed")}}}
	for range 3 {
		f.scanned(t.Context(), scan)
	}
	require.Equal(t, 7, record.Omitted)
	require.Equal(t, 7, record.Count)
	require.Len(t, events, 1)
	require.Equal(t, "workload file not applied: z.yaml: is not followed", events[0].Message)
	f.scanned(t.Context(), workload.Scan{Files: scan.Files})
	require.Equal(t, pool.FollowedFiles{Dir: "/d"}, record)
}
