package api_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/snapshot"
)

// The error of a state transfer has the reason, and when to retry.
func TestStateErrors(t *testing.T) {
	unsynced := func(direction string, err error) error {
		return &claim.SyncError{Direction: direction, Err: err}
	}
	soon := time.Now().Add(time.Hour)
	kept := claim.Claim{ID: "claim-9", State: claim.ReleaseFailed, RetryAt: &soon}
	releaseIt := "POST /v1/claims/claim-alice/release"
	sync := "POST /v1/claims/claim-alice/sync"
	list := "GET /v1/workloads/web/snapshots?tenant=alice"
	tests := []struct {
		call, route  string
		err          error
		status       int
		code, reason string
		claim        string
		retry        float64 // seconds, about
	}{
		{"release", releaseIt, &release.FailedError{Claim: kept, Err: unsynced("upload", errors.New("no route"))}, 502, "sync_failed", "sink", "claim-9", 3600},
		{"release", releaseIt, &release.FailedError{Claim: claim.Claim{ID: "c"}, Err: unsynced("upload", snapshot.ErrTooLarge)}, 502, "sync_failed", "too_large", "c", 1},
		{"claim", "POST /v1/claims", &claim.FailedError{Claim: claim.Claim{ID: "claim-9"}, Step: "download", Err: unsynced("download", snapshot.ErrCorrupt)}, 502, "sync_failed", "damaged", "claim-9", 0},
		{"sync", sync, unsynced("upload", snapshot.ErrCredentials), 502, "sync_failed", "credentials", "", 0},
		{"sync", sync, unsynced("upload", snapshot.ErrFormat), 502, "sync_failed", "unknown_format", "", 0},
		{"sync", sync, unsynced("upload", snapshot.ErrUnknownKey), 502, "sync_failed", "unknown_key", "", 0},
		{"sync", sync, unsynced("upload", fmt.Errorf("read: %w", claim.ErrNotActive)), 409, "claim_not_active", "", "", 0},
		{"sync", sync, claim.ErrSyncNotConfigured, 409, "sync_not_configured", "", "", 0},
		{"snapshots", list, unsynced("listing", errors.New("no route")), 502, "sync_failed", "sink", "", 0},
		{"restore", "POST /v1/workloads/web/snapshots/snap-1/restore", claim.ErrClaimExists, 409, "claim_exists", "", "", 0},
	}
	for _, test := range tests {
		t.Run(test.call+" "+test.code+" "+test.reason, func(t *testing.T) {
			b := newTestBackend()
			server := startServer(t, b)
			b.Fail(test.call, test.err)
			body := map[string]string{"claim": `{"workload":"web","tenant":"dora"}`, "restore": `{"tenant":"alice"}`}[test.call]
			a := request(t, server, test.route, body)
			require.Equal(t, test.status, a.status, a.text)
			require.Equal(t, test.code, a.body["code"], a.text)
			retry, _ := strconv.ParseFloat(a.header.Get("Retry-After"), 64)
			require.InDelta(t, test.retry, retry, test.retry/20)
			for field, want := range map[string]string{"reason": test.reason, "claim": test.claim} {
				got, _ := a.body[field].(string)
				require.Equal(t, want, got, field)
			}
		})
	}
}
