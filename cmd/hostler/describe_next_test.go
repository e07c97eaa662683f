package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// What to do about a claim fits its container and why it failed.
func TestNextOfClaim(t *testing.T) {
	for name, tt := range map[string]struct {
		claim   client.Claim
		box     *client.Container
		events  []client.Event
		want    string
		without string
	}{
		"active":         {client.Claim{State: client.ClaimActive}, nil, nil, "hostler exec c1", "release it, and claim again"},
		"exited":         {client.Claim{State: client.ClaimActive}, &client.Container{Claim: "c1", Health: client.Exited}, nil, "its container is exited: release it", "hostler exec"},
		"unhealthy":      {client.Claim{State: client.ClaimActive}, &client.Container{Claim: "c1", Health: client.Unhealthy}, nil, "hostler exec c1", "exited"},
		"of another one": {client.Claim{State: client.ClaimActive}, &client.Container{Claim: "c2", Health: client.Exited}, nil, "hostler exec c1", "exited"},
		"no state": {
			client.Claim{State: client.ClaimFailed, Workload: "web", Tenant: "bob"}, nil, []client.Event{{Type: client.EventSyncFailed}},
			"hostler snapshots verify --workload web --tenant bob", "hostler exec",
		},
		"a hook": {client.Claim{State: client.ClaimFailed}, nil, nil, "claim again when the cause is gone", "snapshots"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.claim.ID = "c1"
			d := describer{description: description{Kind: "claim", ID: "c1", Claim: &tt.claim, Container: tt.box, Events: tt.events}}
			d.addNext()
			next := strings.Join(d.Next, "\n")
			require.Contains(t, next, tt.want)
			require.NotContains(t, next, tt.without)
		})
	}
}
