package snapshot

import (
	"context"
	"errors"
	"slices"
	"time"
)

// upload is one upload in progress.
type upload struct {
	*Sink
	files    Files
	origin   Origin
	dir      string // the owner's directory
	previous manifest
	sent     int64
	limit    *time.Timer    // ends the upload
	memory   *memoryRequest // its memory, once granted
}

// errUploadAborted ends a packing whose reader has stopped.
var errUploadAborted = errors.New("the upload was aborted")

// Upload is to be written.
func (s *Sink) Upload(ctx context.Context, files Files, o Origin) (Transfer, error) {
	return Transfer{}, errors.ErrUnsupported
}

// findPart returns the part of a sink path, or nil.
func findPart(parts []Part, sinkPath string) *Part {
	i := slices.IndexFunc(parts, func(p Part) bool { return p.SinkPath == sinkPath })
	if i < 0 {
		return nil
	}
	return &parts[i]
}
