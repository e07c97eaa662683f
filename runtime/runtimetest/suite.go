// Package runtimetest is the contract of package runtime as a suite that every
// backend passes: the same cases, independent of the backend.
//
// The cases observe a container only through the contract. The program box, which
// every case runs there, reports what happens inside it. A backend provides a
// Harness. What it does not support is one of the harness's Limitations, which the
// suite logs wherever it skips something.
package runtimetest

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// Harness is what a backend provides to the suite.
type Harness struct {
	// New opens the backend, without any containers of ours.
	New func(t *testing.T) runtime.Runtime
	// Reopen opens the same place a second time, as a restarted server does. It is
	// nil if nothing outlives the value that New returned.
	Reopen func(t *testing.T) runtime.Runtime
	// Spec describes a container whose main process is `box idle`, with one
	// volume at /data, which is its workdir as well. Command[0] is the path of
	// box in the container. The id is new on every call.
	Spec func(t *testing.T) runtime.Spec
	// CreateForeign creates a container that is not ours, and returns its id. It is
	// nil if there can be none.
	CreateForeign func(t *testing.T) string
	// Tamper creates a running container of the spec whose record in the engine
	// has this protocol version; empty for none. It removes the container when
	// the test ends, by any means. It is nil if the record cannot be changed.
	Tamper func(t *testing.T, rt runtime.Runtime, spec runtime.Spec, protocol string)
	// CreatePrevious creates a container of the spec with the program that
	// BuildPreviousShim returns, and with PreviousVersion in the engine's record. It
	// removes the container when the test ends. It is nil if none can be created.
	CreatePrevious func(t *testing.T, spec runtime.Spec)
	// AttackedSpec describes a container of the image that AttackedRootfs returns
	// for a user, with a network of its own; the group hostile sets the rest. It
	// is nil if a container isolates nothing.
	AttackedSpec func(t *testing.T, user int) runtime.Spec
	// Rotates are groups of which a run of the gate performs a part in turn: what
	// they test is in the program in a container, and not in the backend.
	Rotates []string
	// Sample skips attacks that another backend performs: one of that many is
	// performed. 0 and 1 mean all. Others skip the containers of an earlier build
	// where the engine has no part.
	Sample      int
	Limitations Limitations
}

// Limitations are what a backend does not support. The zero value supports all.
type Limitations struct {
	// SingleUser means that commands run only as the server's own user.
	SingleUser bool
	// NoTmpfs means that there is no temporary filesystem at /tmp.
	NoTmpfs bool
	// SharedHost means that a container sees the machine's own files and
	// processes: absolute paths are below HOSTLER_ROOT.
	SharedHost bool
	// WipeUnverifiable means that no used container can be proven clean: all are
	// destroyed.
	WipeUnverifiable bool
	// ReadableIOCounters means that the kernel shows how much a process has read
	// and written to users who may not trace it.
	ReadableIOCounters bool
	// NoOOMCounter means that the kernel does not count the processes of a
	// container that it has killed because the container ran out of memory.
	NoOOMCounter bool
	// NoImageHooks means that hooks of images are not listed, with a reason.
	NoImageHooks bool
	// NoProcesses means that commands are not processes: nothing can be killed
	// from inside, and huge outputs are counted, not written.
	NoProcesses bool
	// NoCommands means that there are no commands with streams.
	NoCommands bool
	// NoKernel means that files are only names, modes and content:
	// there are no devices, mappings, extended attributes and limits.
	NoKernel bool
}

// rotatingParts is into how many parts the cases of a group that rotates are
// divided.
const rotatingParts = 4

// testCase is one case of a list.
type testCase struct {
	name string
	run  func(t *testing.T, s *suite)
}

// containerCase is one case of a list that needs one container.
type containerCase struct {
	name string
	run  func(t *testing.T, c *container)
}

// Run runs every case of the contract against a backend, but for the attacks:
// RunHostile performs those.
func Run(t *testing.T, h Harness) {
	s := &suite{Harness: h, rt: h.New(t)}
	groups := []testCase{
		{"lifecycle", lifecycleCases},
		{"protocol", protocolCases},
		{"stop", gracePeriodCases},
		{"exec", execCases},
		{"input", inputCases},
		{"scripts", scriptCases},
		{"image hooks", imageHookCases},
		{"limits", limitCases},
		{"output", outputCases},
		{"killing", killCases},
		{"lost", containerExitCases},
		{"outcome", waitResultCases},
		{"restart", restartCase},
		{"environment", environmentCases},
		{"stop", stopCase},
		{"fencing", fencingCase},
		{"files", fileCases},
		{"trees", treeCases},
		{"tenant files", tenantFileCases},
		{"recycling", recycleCases},
		{"watch", watchCase},
		{"requests", requestCases},
		{"ports", portCases},
		{"commands", commandCases},
		{"previous", previousCases},
		{"reach", shimProtectionCases},
		{"reopen", reopenCase},
	}
	for _, g := range groups {
		of := *s
		of.rotates = slices.Contains(h.Rotates, g.name)
		t.Run(g.name, func(t *testing.T) { g.run(t, &of) })
	}
}

// suite is a backend under test.
type suite struct {
	Harness
	rt       runtime.Runtime
	previous bool // whether CreatePrevious creates what is started
	rotates  bool // whether the group does
}

// begin begins a case of a group that may rotate.
func (s *suite) begin(t *testing.T) {
	t.Helper()
	if s.rotates {
		testenv.Rotates(t, rotatingParts, t.Name())
	}
}

// container is a started container under test.
type container struct {
	*suite
	id       string
	testprog string
}

// start creates and starts a container that is destroyed when the test ends.
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
	if s.previous {
		s.CreatePrevious(t, spec)
	} else {
		s.create(t, spec)
	}
	require.NoError(t, s.rt.Start(t.Context(), spec.ID, 1), "Start")
	return &container{suite: s, id: spec.ID, testprog: spec.Command[0]}
}

// create creates a container that is destroyed when the test ends.
func (s *suite) create(t *testing.T, spec runtime.Spec) {
	t.Helper()
	t.Cleanup(func() {
		Destroy(t, s.rt, spec.ID)
	})
	require.NoError(t, s.rt.Create(t.Context(), spec), "Create")
}

// exec executes a command and returns what Exec returns.
func (c *container) exec(t *testing.T, cmd runtime.Command) (runtime.Result, error) {
	t.Helper()
	return c.rt.Exec(t.Context(), c.id, cmd)
}

// command is box with arguments. On a machine that stalls it has time enough.
func (c *container) command(args ...string) runtime.Command {
	return runtime.Command{Args: append([]string{c.testprog}, args...), Timeout: 10 * time.Minute}
}

// mustExec executes box, which must succeed, and returns its output.
func (c *container) mustExec(t *testing.T, args ...string) string {
	t.Helper()
	result, err := c.exec(t, c.command(args...))
	require.NoError(t, err, "Exec box %q", args)
	require.True(t, result.OK(), "Exec box %q: %+v", args, result)
	return result.Stdout.String()
}

// path returns where a command in the container finds the container's path p.
func (c *container) path(t *testing.T, p string) string {
	t.Helper()
	if !c.Limitations.SharedHost {
		return p
	}
	root := c.mustExec(t, "env", "HOSTLER_ROOT")
	return root[:len(root)-1] + p
}

var markers atomic.Int64

// newMarker returns a word that no other process has in its argv.
func newMarker() string {
	return fmt.Sprintf("marker-%d-%d", time.Now().UnixNano(), markers.Add(1))
}

// NewID returns an id for a container under test.
func NewID() string { return "test-" + strings.ToLower(rand.Text()[:12]) }
