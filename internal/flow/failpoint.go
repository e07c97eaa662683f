//go:build crashpoints

package flow

import (
	"os"
	"syscall"
)

// failpointAt is where this program kills itself: FLOW/STEP/before or after. Only
// programs that are built for tests have such places.
var failpointAt = os.Getenv("HOSTLER_CRASH_AT")

// Failpoint kills the process, as nobody could have foreseen, at one place.
func Failpoint(flow, step, when string) {
	if failpointAt == flow+"/"+step+"/"+when {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // we do not live to see it fail
		select {}
	}
}
