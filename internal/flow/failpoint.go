//go:build crashpoints

package flow

import (
	"os"
	"syscall"
)

// failpointAt is where this program kills itself: FLOW/STEP/before or after.
// Only test builds have failpoints.
var failpointAt = os.Getenv("HOSTLER_CRASH_AT")

// Failpoint kills the process if it is at the selected failpoint.
func Failpoint(flow, step, when string) {
	if failpointAt == flow+"/"+step+"/"+when {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // an error is not observable
		select {}
	}
}
