package shim

import (
	"bytes"
	"fmt"

	"github.com/hostler/hostler/runtime"
)

// ScriptDescriptor is the descriptor from which a shell reads Run.Script, and
// ScriptPath its path, the shell's last argument. The descriptor before it is
// that of a start helper.
const (
	ScriptDescriptor = 4
	ScriptPath       = "/proc/self/fd/4"
)

// Invalid describes what of a run no program accepts, or returns "". A server
// checks it before it sends the run. A program that receives such a run ends the
// connection.
func (r Run) Invalid() string {
	switch {
	case len(r.Script) > runtime.MaxScript:
		return fmt.Sprintf("the script has %d bytes, at most %d are allowed", len(r.Script), runtime.MaxScript)
	case bytes.IndexByte(r.Script, 0) >= 0:
		return "the script contains a NUL byte"
	case min(int64(r.Limits.CPUTime), r.Limits.Memory, r.Limits.FileSize, r.Limits.Output) < 0:
		return "a limit is negative"
	}
	return ""
}

// checkFeatures returns an error for a run that needs a feature which the
// program does not have: an older program would ignore the field.
func (c *Conn) checkFeatures(r Run) error {
	needed := []struct {
		isUsed        bool
		feature, what string
	}{
		{len(r.Script) > 0, FeatureScripts, "scripts"},
		{r.Limits != runtime.ProcessLimits{}, FeatureLimits, "limits"},
	}
	for _, n := range needed {
		if n.isUsed && !c.Has(n.feature) {
			return &runtime.StartError{Reason: runtime.StartUnsupported,
				Detail: "an older server created the container, whose shim does not support " + n.what + ": replace the container"}
		}
	}
	return nil
}
