package api

import (
	"context"
	"math"

	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
)

// Deliveries reads and changes the deliveries of events to event hooks.
type Deliveries interface {
	Delivery(ctx context.Context, id string) (delivery.Delivery, error)
	Deliveries(ctx context.Context, f delivery.Filter) ([]delivery.Delivery, error)
	Retry(ctx context.Context, id string) (delivery.Delivery, error)
	Discard(ctx context.Context, id string) (delivery.Delivery, error)
	// Test runs the hooks of a point once in the container of an active claim.
	Test(ctx context.Context, p hooks.Point, s runner.Subject) ([]hooks.Run, error)
	Replay(ctx context.Context, workload, hook string, from, to int64) (int, error)
}

type deliveryPath struct {
	ID string `path:"id" maxLength:"128" doc:"The delivery's id."`
}

type deliveryOut struct{ Body delivery.Delivery }

type listDeliveriesIn struct {
	Paging
	Selection
	Workload  string   `query:"workload" maxLength:"128"`
	Hook      string   `query:"hook" maxLength:"128"`
	Container string   `query:"container" maxLength:"128"`
	Claim     string   `query:"claim" maxLength:"128"`
	Tenant    string   `query:"tenant" maxLength:"200"`
	State     []string `query:"state,explode" doc:"queued, scheduled, running, succeeded, failed or discarded; several as a list with commas or repeated."`
}

func (a *API) listDeliveries(ctx context.Context, in *listDeliveriesIn) (*struct{ Body *Page[delivery.Delivery] }, error) {
	wanted, err := states(in.State, delivery.States())
	if err != nil {
		return nil, err
	}
	items, err := a.o.Deliveries.Deliveries(ctx, delivery.Filter{
		Workload: in.Workload, Hook: in.Hook, Container: in.Container, Claim: in.Claim, Tenant: in.Tenant,
		States: wanted, After: in.After, IDPart: in.IDPart, Newest: in.isNewest(), Limit: in.Limit + 1, Scope: scopeOf(ctx),
	})
	if err != nil {
		return nil, err
	}
	page := pageOf(items, in.Limit, func(d delivery.Delivery) string { return d.ID })
	for i, d := range page.Items {
		page.Items[i] = viewOf(ctx).delivery(d)
	}
	return &struct{ Body *Page[delivery.Delivery] }{page}, nil
}

func (a *API) getDelivery(ctx context.Context, in *deliveryPath) (*deliveryOut, error) {
	out, err := answerDelivery(a.o.Deliveries.Delivery(ctx, in.ID))
	if err == nil {
		out.Body = viewOf(ctx).delivery(out.Body)
	}
	return out, err
}

func (a *API) retryDelivery(ctx context.Context, in *deliveryPath) (*deliveryOut, error) {
	return answerDelivery(a.o.Deliveries.Retry(ctx, in.ID))
}

func (a *API) discardDelivery(ctx context.Context, in *deliveryPath) (*deliveryOut, error) {
	return answerDelivery(a.o.Deliveries.Discard(ctx, in.ID))
}

func answerDelivery(d delivery.Delivery, err error) (*deliveryOut, error) {
	if err != nil {
		return nil, err
	}
	return &deliveryOut{d}, nil
}

// ReplayRequest selects the events to deliver again.
type ReplayRequest struct {
	From int64 `json:"from" minimum:"1" doc:"The place of the first event in the log."`
	To   int64 `json:"to,omitempty" minimum:"0" doc:"The place of the last event; by default the end of the log."`
}

// Replayed is the result of a replay.
type Replayed struct {
	Deliveries int `json:"deliveries" doc:"How many deliveries were added."`
}

type replayIn struct {
	ID   string `path:"id" maxLength:"128" doc:"The workload's id." example:"greeter"`
	Hook string `path:"hook" maxLength:"128" doc:"The name of the event hook."`
	Body ReplayRequest
}

func (a *API) replay(ctx context.Context, in *replayIn) (*struct{ Body Replayed }, error) {
	to := in.Body.To
	if to == 0 {
		to = math.MaxInt64
	}
	if to < in.Body.From {
		return nil, invalidf("body.to: %d is before from, %d", to, in.Body.From)
	}
	n, err := a.o.Deliveries.Replay(ctx, in.ID, in.Hook, in.Body.From, to)
	if err != nil {
		return nil, err
	}
	return &struct{ Body Replayed }{Replayed{n}}, nil
}
