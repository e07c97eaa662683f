package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The demo succeeds, shows what it promises, and leaves nothing on the machine.
// It does not run on Kubernetes, because it imports its image into the engine.
func TestDemo(t *testing.T) {
	t.Parallel()
	forBackends(t, []backend{dockerBackend{}, processBackend{}}, func(t *testing.T, rt backend) {
		dir := t.TempDir()
		out := &demoOutput{t: t, instances: map[string]bool{}}
		var errOut bytes.Buffer
		c := exec.CommandContext(t.Context(), program(t, "hostler"), "demo", "--runtime", rt.name())
		c.Env, c.Stdout, c.Stderr = environment("TMPDIR="+dir), out, &errOut
		require.NoError(t, c.Run(), "%s%s", out.text.String(), errOut.String())
		require.Empty(t, errOut.String())
		for _, shown := range []string{
			`index +attempt 2 +succeeded`, `hook state timed_out, killed: true`, `with 0 warnings`,
			`workload\.deleted +notes`, `everything that the demo created is removed`,
		} {
			require.Regexp(t, shown, out.text.String())
		}
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left, "temporary files")
		require.Empty(t, processesOf(t, dir+"/hostler-demo-"))
		if rt.name() == "docker" {
			out.requireGone()
		}
	})
}

// demoOutput records the demo's output, and lists the demo's containers on the
// engine while they exist: later they could not be distinguished from others.
type demoOutput struct {
	t         *testing.T
	mu        sync.Mutex // guards what follows
	text      bytes.Buffer
	image     string
	instances map[string]bool
}

var demoImage = regexp.MustCompile(`building the image (hostler-demo:\w+) from`)

// Write records output. The demo waits for it, so its containers still exist.
func (o *demoOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if m := demoImage.FindSubmatch(o.text.Bytes()); m != nil && bytes.Contains(p, []byte("is active after")) {
		o.image = string(m[1])
		var containers []struct{ Labels map[string]string }
		engineGet(o.t, filtered("/containers/json?", "ancestor", o.image), &containers)
		for _, c := range containers {
			o.instances[c.Labels["hostler.instance"]] = true
		}
	}
	return len(p), nil
}

// requireGone checks that the engine has nothing left of the demo.
func (o *demoOutput) requireGone() {
	o.t.Helper()
	require.Len(o.t, o.instances, 1, "the demo's containers have its label")
	var images []struct{ ID string }
	engineGet(o.t, filtered("/images/json?", "reference", o.image), &images)
	require.Empty(o.t, images)
	for instance := range o.instances {
		require.Empty(o.t, ofInstance(o.t, instance))
	}
}
