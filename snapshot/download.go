package snapshot

import (
	"context"
	"errors"
)

// Destination is the container and the owner of a download.
type Destination struct {
	Owner
	Container string
	Fence     int64 // of the flow, as runtime.Files.WriteTree takes it
	// Holds is the snapshot whose files the container holds, as far as no process
	// has changed them; "" when the mappings' directories are empty.
	Holds string
	// Progress is as in Origin.
	Progress func(received int64)
}

// Download is to be written.
func (s *Sink) Download(ctx context.Context, files Files, to Destination) (Transfer, error) {
	return Transfer{}, errors.ErrUnsupported
}
