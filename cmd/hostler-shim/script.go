package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// scriptSeals keep everyone from changing a script, also those who may open it.
const scriptSeals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// openScript returns a file in memory with the text of a script. It has no name,
// so only the processes that inherit it can open it, and those that may trace
// them.
func openScript(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("script", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, startErrorf("create the script: %s", err)
	}
	script := os.NewFile(uintptr(fd), "script")
	_, err = script.Write(text)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, scriptSeals)
	}
	if err != nil {
		script.Close()
		return nil, startErrorf("write the script: %s", err)
	}
	return script, nil
}

// noShellError returns the error for a script whose shell could not be started.
func noShellError(shell string, err error) error {
	start, ok := errors.AsType[*runtime.StartError](err)
	if !ok || start.Reason != runtime.StartBinaryNotFound {
		return err
	}
	return &runtime.StartError{Reason: start.Reason,
		Detail: fmt.Sprintf("the image has no %s, which the script needs: %s", shell, start.Detail)}
}
