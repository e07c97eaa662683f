package gate

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// applied has one claim, and the workload as it is applied now.
type applied struct {
	claim claim.Claim
	w     *workload.Workload
}

func (a *applied) Claim(context.Context, string) (claim.Claim, error) { return a.claim, nil }

func (a *applied) Touch(context.Context, string) (claim.Claim, error) { return a.claim, nil }

func (a *applied) Current(context.Context, string) (*workload.Workload, pool.Record, error) {
	if a.w == nil {
		return nil, pool.Record{}, pool.ErrWorkloadNotFound
	}
	return a.w, pool.Record{}, nil
}

// A use has the gates of the workload as it is applied when the use begins, also in a
// container that is older, and those of the container once it is not applied any more.
func TestGatesOfAppliedWorkload(t *testing.T) {
	b := newBench(t)
	open, guarded := grant(t, "").Workload, grant(t, "hooks: {exec.before: [guard_destructive]}").Workload
	require.Equal(t, open.Revision, guarded.Revision, "no container is replaced")
	a := &applied{w: open, claim: claim.Claim{ID: "claim-1", Workload: "w", Container: "c-1", Tenant: "t", State: claim.Active}}
	service := access.New(access.Options{Claims: a, Workloads: a, Gates: b, Log: slog.New(slog.DiscardHandler)})
	run := func() error {
		g, err := service.Enter(t.Context(), "claim-1")
		require.NoError(t, err)
		return b.Exec(t.Context(), g, access.CommandUse{Args: []string{"rm", "-rf", "/"}})
	}
	require.NoError(t, run())
	a.w = guarded
	denied := requireDenied(t, run())
	require.Equal(t, `denied by the hook "exec.before[0]" of exec.before: guard_destructive: rm -rf: it removes directories without asking`, denied.Error())
	a.w = nil
	b.revisions = revisions{nil, pool.ErrWorkloadNotFound}
	require.ErrorAs(t, run(), new(*access.DeniedError))
	b.revisions = revisions{guarded, nil}
	require.ErrorAs(t, run(), new(*access.DeniedError))
	b.revisions = revisions{open, nil}
	require.NoError(t, run())
	a.claim.State = claim.Releasing
	_, err := service.Enter(t.Context(), "claim-1")
	require.ErrorIs(t, err, claim.ErrNotActive)
}
