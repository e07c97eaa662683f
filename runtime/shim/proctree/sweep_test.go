package proctree

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Processes have several pauses to exit, also if the machine has stalled for the whole
// timeout.
func TestKillAfterStall(t *testing.T) {
	t.Parallel()
	for exitAfter, want := range map[int]bool{1: true, minSweeps: true, minSweeps + 1: false} {
		sweeps := 0
		s := Sweeper{
			Targets: func() ([]Process, error) { return nil, nil },
			IsGone:  func(time.Duration) bool { sweeps++; return sweeps == exitAfter },
		}
		require.Equal(t, want, s.Kill(-time.Hour), "%d", exitAfter)
		require.Equal(t, min(exitAfter, minSweeps), sweeps)
	}
}
