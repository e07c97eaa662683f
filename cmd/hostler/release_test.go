package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/release"
)

// A release whose upload fails prints whether something may be lost, and what to do
// next.
func TestReleaseRetained(t *testing.T) {
	retry := time.Now().Add(time.Minute)
	for loss, cause := range map[string]error{
		"; nothing is lost: ":         errors.New("the bucket is not there"),
		"; the state is lost unless ": fmt.Errorf("%w: the bucket is not there", release.ErrTerminating),
	} {
		serveTestBackend(t).Fail("release", &release.FailedError{
			Claim: claim.Claim{ID: "claim-alice", RetryAt: &retry},
			Err:   &claim.SyncError{Direction: "upload", Err: cause},
		})
		code, out, errOut := hostler(t, "", "release", "claim-alice")
		require.Equal(t, exitState, code)
		require.Empty(t, out)
		for _, want := range []string{"container retained", "the bucket is not there", loss, "hostler release claim-alice", "--discard"} {
			require.Contains(t, errOut, want)
		}
		require.Regexp(t, `retries in (1m|5\ds)`, errOut, "some time has passed")
	}
}
