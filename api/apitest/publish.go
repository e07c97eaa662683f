package apitest

import (
	"context"
	"log/slog"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/publish"
)

type publisher struct{ *Backend }

// Publish implements api.Publisher. It has no limits, but the error "publish".
func (b publisher) Publish(ctx context.Context, claimID string, r publish.Request) (publish.Response, error) {
	return publish.New(publications(b), publish.Options{Log: slog.New(slog.DiscardHandler)}).Publish(ctx, claimID, r)
}

// SetActivity implements api.Publisher.
func (b publisher) SetActivity(ctx context.Context, claimID string, r publish.ActivityRequest) (publish.ActivityResponse, error) {
	return publish.New(publications(b), publish.Options{Touch: claims(b).Touch, Log: slog.New(slog.DiscardHandler)}).SetActivity(ctx, claimID, r)
}

// publications keeps what is published in the backend.
type publications struct{ *Backend }

// Claim implements publish.Store.
func (b publications) Claim(ctx context.Context, id string) (claim.Claim, error) {
	return records(b).Claim(ctx, id)
}

// Publish implements publish.Store.
func (b publications) Publish(_ context.Context, p publish.Publication) (publish.Result, error) {
	if err := b.injectedError("publish"); err != nil {
		return publish.Result{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range b.Claims {
		if c.ID != p.Claim {
			continue
		}
		if c.State != claim.Active {
			return publish.Result{}, claim.ErrNotActive
		}
		e, isChanged := p.Change(&b.Claims[i], Time)
		if !isChanged {
			return publish.Result{Claim: b.Claims[i], Now: Time}, nil
		}
		e.Seq, e.Time, e.Claim, e.Tenant, e.Workload, e.Container = int64(len(b.Log)+1), Time, c.ID, c.Tenant, c.Workload, c.Container
		b.Log = append(b.Log, e)
		return publish.Result{Claim: b.Claims[i], Event: &e, Now: Time}, nil
	}
	return publish.Result{}, claim.ErrClaimNotFound
}

// PublishedEarlier implements publish.Store: requests of the API have no IDs.
func (b publications) PublishedEarlier(context.Context, string, string, activity.Event) (*activity.Event, error) {
	return nil, nil
}
