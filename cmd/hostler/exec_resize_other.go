//go:build !unix

package main

import (
	"context"
	"io"
	"time"

	"github.com/hostler/hostler/client"
)

// sizeInterval is how often the size of a terminal is read: there is no signal.
const sizeInterval = 500 * time.Millisecond

// followSize calls resize when the size of a terminal changes, until ctx ends. The
// first call is at once, for a command that was attached to.
func followSize(ctx context.Context, out io.Writer, resize func(context.Context, client.TerminalSize) error) {
	ticker := time.NewTicker(sizeInterval)
	defer ticker.Stop()
	for last := (client.TerminalSize{}); ; {
		if size := *terminalSize(out); size != last && resize(ctx, size) == nil {
			last = size
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
