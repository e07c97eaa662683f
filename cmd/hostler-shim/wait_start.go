package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/hostler/hostler/runtime"
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

// maxStartWait is how long init waits for the request to start the main process.
const maxStartWait = 30 * time.Second

// waitForStart leaves the main process to OpStartMain. The engine has started the
// container again, possibly for a flow that is no longer responsible for it: only
// the fence of the request shows that.
func (s *supervisor) waitForStart() {
	s.waitsForStart, s.hasExited = true, true
	s.main.set(shim.MainStopped, 0, nil)
	if s.canExitWaiting() {
		time.AfterFunc(maxStartWait, s.exitIfWaiting)
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
		s.exit(exitFailed)
	}
}

// startMainIfWaiting starts the main process if no request has changed the
// container since init was started. A request without a fence may be late, so it
// must not undo a stop or a wipe.
func (s *supervisor) startMainIfWaiting(r shim.Request) error {
	startErr := s.main.startError()
	switch {
	case s.waitsForStart:
		return s.restart()
	case s.main.get() == shim.MainRunning:
		return nil
	case startErr != nil:
		return startErr.Err() // an earlier response was lost
	case r.Fence != shim.NoFence:
		return s.restart() // stopped by the same flow
	}
	return fmt.Errorf("%w: the container was stopped since it was started", runtime.ErrStaleFence)
}
