package claim_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
)

// A container's files are never uploaded as the state of a claim that does not
// hold the container.
func TestUploadRejectsAnotherContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		ada, bob := h.Claim("w", "ada"), h.Claim("w", "bob")
		w, _, err := h.Pools.Catalog.Revision(t.Context(), ada.Workload, ada.Revision)
		require.NoError(t, err)
		stale := ada
		stale.Container = bob.Container
		_, _, err = h.Claims.StateSync.Upload(t.Context(), stale, w, "request")
		require.ErrorIs(t, err, claim.ErrNotActive)
		list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Empty(t, list)
	})
}

// Errors that a tenant can cause have reason tenant, errors of the sink have
// reason sink, and a state older than the current snapshot is stale.
func TestUploadFailureReason(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]claim.FailureReason{
		snapshot.ErrContainer:          claim.FailedByTenant,
		snapshot.ErrTooLarge:           claim.FailedByTenant,
		runtime.ErrBadArchive:          claim.FailedByTenant,
		runtime.ErrTainted:             claim.FailedByTenant,
		runtime.ErrContainerExited:     claim.FailedByTenant,
		runtime.ErrNotRunning:          claim.FailedByTenant,
		snapshot.ErrStale:              claim.FailedStale,
		errors.New("the disk is full"): claim.FailedBySink,
	} {
		e := &claim.SyncError{Direction: "upload", Err: fmt.Errorf("upload: %w", err)}
		require.Equal(t, want, e.Reason(), "%v", err)
		require.ErrorIs(t, e, err)
	}
}

// A container's record has its snapshot as soon as its claim is active.
func TestContainerRecordsSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		first := h.Claim("w", "ada")
		require.Empty(t, containerRecord(h, first.Container).Snapshot)
		h.Release(first)
		again := h.Claim("w", "ada")
		require.NotEmpty(t, again.Snapshot)
		require.Equal(t, again.Snapshot, containerRecord(h, again.Container).Snapshot)
	})
}
