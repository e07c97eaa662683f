// Package runtimetest is the contract of package runtime as a suite that every
// backend passes: the same cases, without a word about which backend it is.
//
// The cases see a container only through the contract. What happens inside it
// is told by the program box, which every case runs there. A backend brings a
// Harness. What it honestly cannot do is a Fact of the harness, which the suite
// logs wherever it leaves something out.
package runtimetest

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// Harness is what a backend brings to the suite.
type Harness struct {
	// New opens the backend, with nothing of ours in it.
	New func(t *testing.T) runtime.Runtime
	// Reopen opens the same place a second time, as a server that starts again
	// does. Nil if nothing outlives the value that New gave.
	Reopen func(t *testing.T) runtime.Runtime
	// Spec describes a container whose main process is `box idle`, with one
	// volume at /data, which is its workdir as well. Command[0] is the path of
	// box in the container. The id is new on every call.
	Spec func(t *testing.T) runtime.Spec
	// CreateForeign makes a container that is not ours, and gives its id. Nil if there
	// can be none.
	CreateForeign func(t *testing.T) string
	// Tamper makes a container of the spec that runs, and whose record in the
	// engine says that of its protocol version; empty for nothing. It removes it
	// when the test ends, by whatever means. Nil where nobody can.
	Tamper func(t *testing.T, rt runtime.Runtime, spec runtime.Spec, protocol string)
	// AttackedSpec describes a container of the image that AttackedRootfs is for a
	// user, with no network but its own; the group hostile fills in the rest. Nil
	// where a container isolates nothing.
	AttackedSpec func(t *testing.T, user int) runtime.Spec
	// Sample leaves out attacks where another backend has them all: one of so
	// many is performed. 0 and 1 are all.
	Sample      int
	Limitations Limitations
}

// Limitations are what a backend is unable to do. The zero value can all.
type Limitations struct {
	// SingleUser says that commands run as the server's own user only.
	SingleUser bool
	// NoTmpfs says that there is no temporary filesystem at /tmp.
	NoTmpfs bool
	// SharedHost says that a container sees the machine's own files and
	// processes: absolute paths are below HOSTLER_ROOT.
	SharedHost bool
	// WipeUnverifiable says that no container that was used can be proven clean: all
	// are destroyed.
	WipeUnverifiable bool
	// ReadableIOCounters says that the kernel shows how much a process has read and
	// written to users who may not trace it.
	ReadableIOCounters bool
	// NoProcesses says that commands are not processes: nothing can be killed
	// from inside, and huge outputs are counted, not written.
	NoProcesses bool
	// NoKernel says that files are no more than names, modes and content:
	// there are no devices, mappings, extended attributes and limits.
	NoKernel bool
}

// maxWait is how long the suite waits for what should come at once.
const maxWait = 30 * time.Second

// testCase is a list of cases.
type testCase struct {
	name string
	run  func(t *testing.T, s *suite)
}

// Run runs every case of the contract against a backend.
func Run(t *testing.T, h Harness) {
	s := &suite{Harness: h, rt: h.New(t)}
	groups := []testCase{
		{"lifecycle", lifecycleCases},
		{"protocol", protocolCases},
		{"stop", gracePeriodCases},
		{"exec", execCases},
		{"input", inputCases},
		{"output", outputCases},
		{"killing", killCases},
		{"lost", containerExitCases},
		{"outcome", waitResultCases},
		{"restart", restartCase},
		{"stop", stopCase},
		{"fencing", fencingCase},
		{"files", fileCases},
		{"recycling", recycleCases},
		{"watch", watchCase},
		{"reach", shimProtectionCases},
		{"reopen", reopenCase},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) { g.run(t, s) })
	}
}

// suite is a backend under test.
type suite struct {
	Harness
	rt runtime.Runtime
}

// container is a started container under test.
type container struct {
	*suite
	id       string
	testprog string
}

// start makes and starts a container that goes when the test ends.
func (s *suite) start(t *testing.T, change ...func(*runtime.Spec)) *container {
	t.Helper()
	spec := s.Spec(t)
	for _, f := range change {
		f(&spec)
	}
	return s.startSpec(t, spec)
}

func (s *suite) startSpec(t *testing.T, spec runtime.Spec) *container {
	t.Helper()
	s.create(t, spec)
	require.NoError(t, s.rt.Start(t.Context(), spec.ID), "Start")
	return &container{suite: s, id: spec.ID, testprog: spec.Command[0]}
}

// create makes a container that goes when the test ends.
func (s *suite) create(t *testing.T, spec runtime.Spec) {
	t.Helper()
	t.Cleanup(func() {
		Destroy(t, s.rt, spec.ID)
	})
	require.NoError(t, s.rt.Create(t.Context(), spec), "Create")
}

// exec executes a command and returns all of what Exec says.
func (c *container) exec(t *testing.T, cmd runtime.Command) (runtime.Result, error) {
	t.Helper()
	return c.rt.Exec(t.Context(), c.id, cmd)
}

// command is box with arguments.
func (c *container) command(args ...string) runtime.Command {
	return runtime.Command{Args: append([]string{c.testprog}, args...)}
}

// mustExec executes box, which has to succeed, and returns what it prints.
func (c *container) mustExec(t *testing.T, args ...string) string {
	t.Helper()
	result, err := c.exec(t, c.command(args...))
	require.NoError(t, err, "Exec box %q", args)
	require.True(t, result.OK(), "Exec box %q: %+v", args, result)
	return result.Stdout.String()
}

// path is where a command in the container finds the container's path p.
func (c *container) path(t *testing.T, p string) string {
	t.Helper()
	if !c.Limitations.SharedHost {
		return p
	}
	root := c.mustExec(t, "env", "HOSTLER_ROOT")
	return root[:len(root)-1] + p
}

var markers atomic.Int64

// newMarker is a word that no other process has in its argv.
func newMarker() string {
	return fmt.Sprintf("marker-%d-%d", time.Now().UnixNano(), markers.Add(1))
}

// NewID makes an id for a container under test.
func NewID() string { return "test-" + strings.ToLower(rand.Text()[:12]) }
