package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Limits on connections. There is none on a whole answer, for a claim may wait
// for minutes and a stream goes on: each write has its own instead.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

// Run serves on ln until ctx ends. Then it takes no new requests, ends the
// streams, and gives the other requests the grace to finish. A listener that
// others than this machine can reach is refused when there are no keys.
func (a *API) Run(ctx context.Context, ln net.Listener, grace time.Duration) error {
	defer ln.Close() //nolint:errcheck // the server has closed it already
	if a.o.Keys == nil && !loopback(ln.Addr().String()) {
		return fmt.Errorf("listen on %s: everybody who can reach this address could use the API; give it a file with API keys, or listen on 127.0.0.1", ln.Addr())
	}
	server := &http.Server{
		Handler:           a,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(a.o.Log.Handler(), slog.LevelDebug),
	}
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve on %s: %w", ln.Addr(), err)
		}
		return nil
	})
	group.Go(func() error {
		<-gctx.Done()
		close(a.closing)
		sctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), grace, errors.New("the grace for open requests is over"))
		defer cancel()
		if err := server.Shutdown(sctx); err != nil {
			// What is still open is broken off; the flows behind it go on.
			return errors.Join(fmt.Errorf("finish the open requests within %s: %w", grace, err), server.Close())
		}
		return nil
	})
	return group.Wait()
}
