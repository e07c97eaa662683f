package doctor_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/internal/rootcause"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// A tenant whose current snapshot is damaged is a finding once a claim has found
// that, until a later claim of the tenant succeeds.
func TestDamagedSnapshotIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(file)
		c := h.Claim("w", "ada")
		_, err := h.RT.Exec(t.Context(), c.Container, runtime.Command{Args: []string{"box", "write", "/data/file", "text"}})
		require.NoError(t, err)
		h.Release(c)
		h.AwaitIdle("w", 1)
		packs := map[string][]byte{}
		for key, data := range h.Bucket.Objects() {
			if strings.Contains(key, "/packs/") {
				packs[key] = data
				h.Bucket.Set(key, bytes.Repeat([]byte("x"), len(data)), time.Now())
			}
		}
		require.NotEmpty(t, packs)
		require.Empty(t, newDoctor(h, freeSpace).Examine(t.Context()).Findings, "nothing has read it")
		_, _, err = h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
		h.AwaitIdle("w", 1)
		findings := newDoctor(h, freeSpace).Examine(t.Context()).Findings
		require.Len(t, findings, 1)
		require.Equal(t, "unreadable_state", findings[0].Check)
		require.Equal(t, doctor.Error, findings[0].Severity)
		require.Equal(t, "ada", findings[0].Tenant)
		require.Contains(t, findings[0].Message, "the state of tenant ada of w cannot be read")
		require.Contains(t, findings[0].Hint, "`hostler snapshots verify --workload w --tenant ada`")
		require.Contains(t, findings[0].Hint, "`hostler snapshots restore SNAPSHOT --workload w --tenant ada`")

		for key, data := range packs {
			h.Bucket.Set(key, data, time.Now())
		}
		h.Claim("w", "ada")
		h.AwaitIdle("w", 1)
		require.Empty(t, newDoctor(h, freeSpace).Examine(t.Context()).Findings)
	})
}

// The hint follows the cause: a missing key is no defect of the sink, neither for a
// claim nor for a release.
func TestHintsOfMissingKeys(t *testing.T) {
	unknown := fmt.Errorf("download of the tenant's state: %w: 00ff is not in the file of --state-key-file", snapshot.ErrUnknownKey)
	const hint = "--state-key-file that also has the older key"
	t.Run("claim", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.NewStopped(t)
			h.Apply(file)
			reserve(h, true)
			why, chain := rootcause.Of(unknown)
			_, err := h.DB.UpdateClaim(t.Context(), claim.Fail("k1", why, chain...))
			require.NoError(t, err)
			findings := newDoctor(h, freeSpace).Examine(t.Context()).Findings
			require.Len(t, findings, 1)
			require.Equal(t, "unreadable_state", findings[0].Check)
			require.Contains(t, findings[0].Hint, hint)
		})
	})
	t.Run("another failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.NewStopped(t)
			h.Apply(file)
			reserve(h, true)
			_, err := h.DB.UpdateClaim(t.Context(), claim.Fail("k1", "the sink is unplugged", "download"))
			require.NoError(t, err)
			require.Empty(t, newDoctor(h, freeSpace).Examine(t.Context()).Findings)
		})
	})
	t.Run("release", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(file)
			c := h.Claim("w", "ada")
			h.AwaitIdle("w", 1)
			for _, test := range []struct {
				cause         error
				hint, message string
			}{
				{unknown, hint, "after 1 consecutive failed release: "},
				{errors.New("the sink is unplugged"), "fix the sink; ", "after 2 consecutive failed releases: "},
			} {
				h.Bucket.Before(func(snapshottest.Call) error { return test.cause })
				_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
				require.Error(t, err)
				findings := newDoctor(h, freeSpace).Examine(t.Context()).Findings
				require.Len(t, findings, 1)
				require.Contains(t, findings[0].Message, test.message)
				require.Contains(t, findings[0].Hint, test.hint)
				require.Contains(t, findings[0].Hint, "--discard")
				require.Equal(t, errors.Is(test.cause, unknown), !strings.Contains(findings[0].Hint, "fix the sink"))
			}
		})
	})
}
