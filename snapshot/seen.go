package snapshot

import (
	"context"

	"github.com/hostler/hostler/runtime/tree"
)

// seenDir has the lists of what the server has seen in containers.
const seenDir = "seen/"

// A seen list has the stamp that each file of a part had in one container, in
// the order of the part's index. With it, an upload from that container reads
// only what has changed. It is a hint: without it every file is read. It is
// trusted as far as its tenant's snapshots are, because it decides about nothing
// else.

// seenKey returns the key of the list of one part of a snapshot in a container.
func seenKey(dir, snapshot, container string, part int) string

// seenWriter stores a seen list while it is made.
type seenWriter struct{}

// newSeenWriter begins a list.
func newSeenWriter(ctx context.Context, b Bucket, key string) *seenWriter

// Add appends the stamp of the next file.
func (w *seenWriter) Add(s tree.Stamp) error

// Close stores the list. Abort discards it.
func (w *seenWriter) Close() error
func (w *seenWriter) Abort()

// seenReader reads a list. One that is missing, damaged or too short has zero
// stamps: it is never an error of the transfer.
type seenReader struct{}

func openSeen(ctx context.Context, b Bucket, key string) *seenReader
func (r *seenReader) Next() tree.Stamp
func (r *seenReader) Close()
