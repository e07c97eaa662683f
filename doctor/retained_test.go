package doctor_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// Containers that are retained after failed releases are a finding when they
// reduce the room for others, and not before.
func TestRetainedContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(file) // max_size is 3
		h.RT.Break("scan_tree", runtime.ErrTainted)
		kept := func() []doctor.Finding {
			var found []doctor.Finding
			for _, f := range newDoctor(h, freeSpace).Examine(t.Context()).Findings {
				if f.Check == "kept_containers" {
					found = append(found, f)
				}
			}
			return found
		}
		for _, tenant := range []string{"a", "b", "c", "d"} {
			require.Empty(t, kept())
			c := h.Claim("w", tenant)
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
			require.ErrorIs(t, err, runtime.ErrTainted)
		}
		found := kept()
		require.Len(t, found, 1)
		require.Equal(t, doctor.Error, found[0].Severity)
		require.Equal(t, "w", found[0].Workload)
		require.Contains(t, found[0].Message, "4 containers")
		require.Contains(t, found[0].Hint, "release CLAIM --discard")
		require.Contains(t, found[0].Hint, "hostler scale w")
	})
}
