package api

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Health is the response to a probe.
type Health struct {
	Status  string `json:"status" example:"ok"`
	Version string `json:"version"`
}

type healthOut struct{ Body Health }

func (a *API) healthz(context.Context, *struct{}) (*healthOut, error) {
	return &healthOut{Health{Status: "ok", Version: a.o.Version}}, nil
}

func (a *API) readyz(ctx context.Context, _ *struct{}) (*healthOut, error) {
	select {
	case <-a.closing:
		return nil, fmt.Errorf("%w: the server is stopping", errNotReady)
	default:
	}
	if err := a.ready.check(ctx, a.o.Ready); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotReady, err)
	}
	return &healthOut{Health{Status: "ok", Version: a.o.Version}}, nil
}

// Any client may probe readiness. However many do, there is one check of engine
// and database at a time, and none while the last result is valid.
const (
	readinessTTL = 2 * time.Second
	readyTimeout = 15 * time.Second
)

// readiness caches the result of the readiness check.
type readiness struct {
	// mu guards what follows.
	mu      sync.Mutex
	at      time.Time
	err     error
	pending chan struct{} // closed when the check in progress has ended; nil: none
}

// check returns the last result, or probes again when it is too old.
func (r *readiness) check(ctx context.Context, probe func(context.Context) error) error {
	if probe == nil {
		return nil
	}
	r.mu.Lock()
	if !r.at.IsZero() && time.Since(r.at) < readinessTTL {
		defer r.mu.Unlock()
		return r.err
	}
	if pending := r.pending; pending != nil {
		r.mu.Unlock()
		select {
		case <-pending:
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	pending := make(chan struct{})
	r.pending = pending
	r.mu.Unlock()

	// Concurrent callers share one result.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	err := probe(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.err, r.pending = time.Now(), err, nil
	close(pending)
	return err
}
