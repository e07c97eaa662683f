package inside

import (
	"context"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/release"
)

// Releaser releases claims.
type Releaser interface {
	Release(ctx context.Context, id string, r release.Request) (claim.Claim, error)
}

// released is the response to the request release.
type released struct {
	Claim string `json:"claim"`
	State string `json:"state"`
}

// ReleaseRequest returns the request release. It is answered once it is recorded
// that the claim is releasing: the container may end before the release does. A
// hook may not ask for it, because the release would wait for the hook.
func ReleaseRequest(releases Releaser) Request {
	return Request{Name: "release", Handle: func(ctx context.Context, c Caller, body []byte, respond func(any)) (any, error) {
		if err := decode(body, &struct{}{}); err != nil {
			return nil, err
		}
		_, err := releases.Release(ctx, c.Claim, release.Request{
			Reason:    "requested from inside the container",
			Releasing: func() { respond(released{Claim: c.Claim, State: string(claim.Releasing)}) },
		})
		return released{Claim: c.Claim, State: string(claim.Released)}, err
	}}
}
