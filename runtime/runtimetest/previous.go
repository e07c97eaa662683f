package runtimetest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// previousCases tests the containers of an earlier build, which this one's server
// has adopted: everything works that worked with the server of that build. The
// cases are some of the other groups, at least one for each operation of the
// protocol. A case that begins to need a newer program leaves the list.
func previousCases(t *testing.T, s *suite) {
	if isUnsupported(t, s.CreatePrevious == nil, "containers of an earlier build") {
		return
	}
	require.NoError(t, s.rt.Protocols().Check(PreviousVersion), "the server supports the version of previousCommit")
	BuildPreviousShim(t)
	adopted := *s
	adopted.previous = true
	if s.Reopen != nil {
		adopted.rt = s.Reopen(t)
	}
	t.Run("one container", func(t *testing.T) {
		t.Parallel()
		c := adopted.start(t)
		require.Equal(t, PreviousVersion, c.recordedProtocol(t, c.id))
		for _, k := range previousInOne {
			t.Run(k.name, func(t *testing.T) {
				c.mustExec(t, "mkdir", dirOf(t), "755")
				k.run(t, c)
			})
		}
	})
	cases := previousOnEngine
	if s.Sample <= 1 {
		cases = slices.Concat(cases, previousOfProgram)
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.run(t, &adopted)
		})
	}
}

// onNew runs a case in a new container.
func onNew(run func(t *testing.T, c *container)) func(t *testing.T, s *suite) {
	return func(t *testing.T, s *suite) { run(t, s.start(t)) }
}

// previousInOne are the cases that share a container.
var previousInOne = []containerCase{
	{"exit codes", exitCodes}, {"stdin", stdin}, {"environment", environment}, {"workdir", workdir}, {"user", user},
	{"parallel", parallelExecs}, {"same RunID", sameRunID}, {"output", outputWhileRunning}, {"timeout", timeout}, {"cancelled", cancelled},
	{"archives", roundTrip}, {"last change", lastModified},
	{"list", treeLists}, {"read", treeReads}, {"stamps", stampUnchanged}, {"mapped", stampMapped}, {"replace", fillReplaces}, {"stamps of written files", stampWritten},
	{"file", fileRoundTrip}, {"ranges", fileRanges}, {"lists", fileLists}, {"removal", fileRemoval}, {"file trees", fileTrees},
}

// previousOnEngine are cases whose containers have an image, mounts and a network of
// the engine.
var previousOnEngine = []testCase{
	{"image hooks", imageHookCases}, {"restart", restartCase}, {"halt", stopAsks("SIGUSR1", "USR1")}, {"wipe", wipe}, {"port", portEcho},
	{"requests of commands", requestsOfCommand}, {"command input", onNew(commandInput)},
}

// previousOfProgram are cases of what only the program does.
var previousOfProgram = []testCase{
	{"script", scriptText}, {"limits", limitedMemory}, {"outcome", waitResultCases},
	{"start twice", startTwice}, {"main exits", mainExits}, {"claim's environment", environmentOfMain},
	{"stop", stopCase}, {"fences", fencingCase}, {"changed", wipeChanged}, {"log", wipeLog},
	{"requests of the main process", requestsOfMain}, {"requests of a flow", requestsOfFlow},
	{"half-close", portHalfClose}, {"port fence", portFence},
	{"signal", onNew(commandSignal)}, {"attach again", onNew(commandAttachAgain)}, {"control", onNew(commandControl)},
	{"command list", onNew(commandList)}, {"end", onNew(commandEnd)}, {"end all", onNew(commandEndAll)}, {"terminal", onNew(commandTerminalInput)},
}
