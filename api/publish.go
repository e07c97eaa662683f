package api

import (
	"context"

	"github.com/hostler/hostler/publish"
)

// Publisher records what tenants' programs report.
type Publisher interface {
	Publish(ctx context.Context, claimID string, r publish.Request) (publish.Response, error)
	SetActivity(ctx context.Context, claimID string, r publish.ActivityRequest) (publish.ActivityResponse, error)
}

// PublishRequest is an event of a claim's program.
type PublishRequest struct {
	Claim string `json:"claim" minLength:"1" maxLength:"128" doc:"The claim's id."`
	publish.Request
}

type publishIn struct{ Body PublishRequest }

func (a *API) publishEvent(ctx context.Context, in *publishIn) (*struct{ Body publish.Response }, error) {
	if err := a.permitClaim(ctx, in.Body.Claim); err != nil {
		return nil, err
	}
	out, err := a.o.Publisher.Publish(ctx, in.Body.Claim, in.Body.Request)
	if err != nil {
		return nil, err
	}
	return &struct{ Body publish.Response }{out}, nil
}

type activityIn struct {
	ID   string `path:"id" maxLength:"128" doc:"The claim's id."`
	Body publish.ActivityRequest
}

func (a *API) setActivity(ctx context.Context, in *activityIn) (*struct{ Body publish.ActivityResponse }, error) {
	out, err := a.o.Publisher.SetActivity(ctx, in.ID, in.Body)
	if err != nil {
		return nil, err
	}
	return &struct{ Body publish.ActivityResponse }{out}, nil
}
