package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime/shim"
)

// startedBefore reports whether an earlier init has started the main process of
// this container, and creates the marker. If the marker cannot be created, it
// returns false: to start the main process twice is better than never.
func startedBefore(marker string) bool {
	if marker == "" {
		return false
	}
	f, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return true
	}
	if err != nil {
		logError("create the started marker", err)
		return false
	}
	f.Close()
	return false
}

// errWaitsForStart is the error of every other change but a stop before the main process of
// a container that its engine has restarted is started: it exited, and the server
// that starts it has to record that.
var errWaitsForStart = (&shim.WireError{Code: shim.CodeNotRunning, Detail: "it exited and was not started since"}).Err()

// How long init waits for the request to start the main process.
const (
	// maxStartWait is for the flow that is responsible for the container.
	maxStartWait = 30 * time.Second
	// refusedStartWait is after a request of another flow, which may have had the
	// engine start init.
	refusedStartWait = 5 * time.Second
)

// waitForStart leaves the main process to OpStartMain. The engine has started the
// container again, possibly for a flow that is no longer responsible for it: only
// the fence of the request shows that.
func (s *supervisor) waitForStart() {
	s.waitsForStart, s.hasExited = true, true
	s.main.set(shim.MainStopped, 0, nil)
	s.commands.setExited()
	if s.canExitWaiting() {
		s.startWait = time.AfterFunc(maxStartWait, s.exitIfWaiting)
	}
}

// limitStartWait limits how long init waits from now on, if it waits and may
// exit. The caller holds changeSem.
func (s *supervisor) limitStartWait(limit time.Duration) {
	if s.canExitWaiting() {
		s.startWait.Reset(limit)
	}
}

// canExitWaiting reports whether init may exit while it waits for a start: an
// engine with a StartedMarker would restart the container again.
func (s *supervisor) canExitWaiting() bool { return s.waitsForStart && s.config.StartedMarker == "" }

// exitIfWaiting ends the container unless its main process was started: the
// engine then reports the container as exited, as it was before.
func (s *supervisor) exitIfWaiting() {
	s.changeSem <- struct{}{}
	defer func() { <-s.changeSem }()
	if s.waitsForStart {
		logError("wait for a start", errWaitsForStart)
		s.exit(s.recordedExitCode())
	}
}

// recordedExitCode returns the exit code of the earlier init. One that was killed
// has not recorded any.
func (s *supervisor) recordedExitCode() int {
	text, err := os.ReadFile(s.config.ExitFile)
	if err != nil {
		return sigkillExitCode
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return sigkillExitCode
	}
	return code
}

// startMainFor starts the main process for a flow, unless it was started for that
// flow already: an earlier response may have been lost. What an earlier flow has
// started ends first, and so does what has another environment.
func (s *supervisor) startMainFor(fence int64, environment map[string]string) error {
	isSame := len(environment) == 0 || maps.Equal(s.environment, environment)
	if isSame && (s.mainFence == shim.NoFence || s.mainFence == fence) {
		if s.main.get() == shim.MainRunning {
			s.mainFence = fence
			return nil
		}
		if startErr := s.main.startError(); startErr != nil {
			return startErr.Err()
		}
	}
	return s.restart(environment)
}
