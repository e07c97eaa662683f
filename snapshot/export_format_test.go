package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// StoreRecords stores records as the current snapshot, and the data of chunks.
func (s *Sink) StoreRecords(ctx context.Context, o Owner, records []index.Record, data map[*index.Chunk][]byte) error {
	dir, h, err := s.Head(ctx, o)
	if err != nil {
		return err
	}
	next := h
	if h.Generation == 0 {
		_, _ = rand.Read(next.Salt[:]) // it never fails
	}
	r := s.repository(dir, next)
	w, hash := pack.NewWriter(ctx, s.bucket, dir+packsDir, r.format, nil), r.format.Hasher()
	b := index.NewBuilder(w, r.format, nil, nil)
	for _, record := range records {
		for i := range record.Chunks {
			if d, ok := data[&record.Chunks[i]]; ok {
				ref, addErr := w.Add(pack.Data, hash(pack.Data, d), d)
				record.Chunks[i].Ref, err = ref, errors.Join(err, addErr)
			}
		}
		err = errors.Join(err, b.Add(record))
	}
	root, ref, finishErr := b.Finish()
	if err := errors.Join(err, finishErr, w.Flush()); err != nil {
		return err
	}
	part := Part{
		SinkPath: "state", Path: "/data", Pattern: "**", Mode: "sync", Index: locationOf(ref, w.RootedSize(ref.Pack)),
		Files: root.Files, Bytes: root.Bytes,
	}
	for _, p := range root.Packs {
		part.Stored += p.Live
	}
	part.New, _ = w.Stored()
	snap := Snapshot{ID: newID(), Time: time.Now().UTC(), Reason: "request", Parts: []Part{part}}
	return s.commit(ctx, dir, h, next.withSnapshot(snap, s.sync.Keep))
}
