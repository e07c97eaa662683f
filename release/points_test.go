package release_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
)

// Every point of the table is fired once in the life of a container that is
// claimed, released and destroyed, in the order of the table.
func TestEveryPointIsFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		file := strings.Split(hookedWorkload, "hooks:")[0] + "hooks:\n"
		var want []string
		for _, rule := range hooks.Points() {
			want = append(want, string(rule.Point))
			action := "command: [box, echo, hello]"
			if rule.NotStarted {
				action = "builtin: log"
			}
			file += fmt.Sprintf("  %s: [{ %s }]\n", rule.Point, action)
		}
		h.Apply(file)
		c := h.Claim("w", "ada")
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
		require.NoError(t, err)
		awaitDestroyed(h, c.Container)
		runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Container: c.Container, States: []hooks.RunState{hooks.Succeeded}})
		require.NoError(t, err)
		var fired []string
		for _, r := range runs {
			fired = append(fired, string(r.Point))
		}
		require.Equal(t, want, fired)
	})
}

// The states in which points are resumed are states of claims and containers.
func TestPointsAreResumedInKnownStates(t *testing.T) {
	for _, rule := range hooks.Points() {
		switch in := rule.ResumedIn; in.Record {
		case hooks.OfClaim:
			require.True(t, slices.Contains(claim.States(), claim.State(in.State)), rule.Point)
		case hooks.OfContainer:
			require.True(t, slices.Contains(pool.States(), pool.State(in.State)), rule.Point)
		default:
			require.Zero(t, in, rule.Point)
		}
	}
}
