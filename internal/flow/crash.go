//go:build crashpoints

package flow

import (
	"os"
	"syscall"
)

// crashAt is where this program kills itself: FLOW/STEP/before or after. Only
// programs that are built for tests have such places.
var crashAt = os.Getenv("HOSTLER_CRASH_AT")

// CrashPoint kills the process, as nobody could have foreseen, at one place.
func CrashPoint(flow, step, when string) {
	if crashAt == flow+"/"+step+"/"+when {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // we do not live to see it fail
		select {}
	}
}
