package api

import (
	"context"
	"fmt"
)

// Health is what a probe reads.
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
	if a.o.Ready != nil {
		if err := a.o.Ready(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotReady, err)
		}
	}
	return &healthOut{Health{Status: "ok", Version: a.o.Version}}, nil
}
