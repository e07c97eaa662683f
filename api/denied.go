package api

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth/audit"
)

// Denials records the requests that were refused. It is an audit.Recorder.
type Denials interface {
	Denied(d audit.Denial)
}

// The reasons for which a request is refused.
const (
	deniedRole       = "role"
	deniedScope      = "scope"
	deniedCredential = "credential"
)

type denialKey struct{}

// denialOf returns what is known of a request, should it be refused: who sends it,
// what for, and why it is refused. It is empty until then.
func denialOf(ctx context.Context) *audit.Denial {
	if d, ok := ctx.Value(denialKey{}).(*audit.Denial); ok {
		return d
	}
	return new(audit.Denial)
}

// withDenial returns a request that may be refused, and what records that.
func (a *API) withDenial(r *http.Request) (_ *http.Request, record func()) {
	d := &audit.Denial{Actor: actorOf(r, nil)}
	return r.WithContext(context.WithValue(r.Context(), denialKey{}, d)), func() {
		if d.Reason != "" && a.o.Denials != nil {
			a.o.Denials.Denied(*d)
		}
	}
}

// markDenied notes that a request is refused.
func markDenied(ctx context.Context, reason string) { denialOf(ctx).Reason = reason }

// markActor notes who sends a request.
func markActor(ctx context.Context, actor activity.Actor) { denialOf(ctx).Actor = actor }

// markOperation notes what a request is for.
func markOperation(ctx context.Context, operation string) { denialOf(ctx).Operation = operation }
