//go:build unix

package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/hostler/hostler/client"
)

// followSize calls resize when the size of a terminal changes, until ctx ends. The
// first call is at once, for a command that was attached to.
func followSize(ctx context.Context, out io.Writer, resize func(context.Context, client.TerminalSize) error) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	for {
		_ = resize(ctx, *terminalSize(out)) // the next change sends it again
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
