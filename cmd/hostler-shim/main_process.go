package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// mainProcess is the state of the workload's own command.
type mainProcess struct {
	// mu guards the fields below.
	mu       sync.Mutex
	state    shim.MainState
	pid      int
	startErr *shim.WireError // with MainFailed
}

// set records a change of the main process that init has made.
func (m *mainProcess) set(state shim.MainState, pid int, startErr *shim.WireError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.pid, m.startErr = state, pid, startErr
}

func (m *mainProcess) get() shim.MainState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

func (m *mainProcess) startError() *shim.WireError {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.startErr
}

// currentPID returns the PID of the main process, or 0 if there is none.
func (m *mainProcess) currentPID() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pid
}

// isRunning reports whether pid is still the main process, and not one that was
// killed on purpose.
func (m *mainProcess) isRunning(pid int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state == shim.MainRunning && m.pid == pid
}

// signal sends sig to the main process. It returns false if there is none.
func (m *mainProcess) signal(sig syscall.Signal) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != shim.MainRunning {
		return false
	}
	_ = unix.Kill(m.pid, sig) // it may have exited, which the reaper detects
	return true
}

// startMain starts the workload's own command.
func (s *supervisor) startMain() error {
	if err := os.Remove(s.config.ExitFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		logError("remove the exit file", err)
	}
	pid, exited, err := s.launchMain()
	if err != nil {
		s.main.set(shim.MainFailed, 0, shim.NewWireError(err))
		return err
	}
	s.main.set(shim.MainRunning, pid, nil)
	go func() { // ends with the main process
		status := <-exited
		if s.main.isRunning(pid) {
			s.onMainExit(exitCode(status))
		}
	}()
	return nil
}

func (s *supervisor) launchMain() (int, <-chan unix.WaitStatus, error) {
	as, err := containerAccounts.lookup(s.config.User)
	if err != nil {
		return 0, nil, err
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, nil, startErrorf("open the input: %s", err)
	}
	defer unix.Close(null)
	stdout, stderr, err := s.logPipes.open()
	if err != nil {
		return 0, nil, err
	}
	defer unix.Close(stdout)
	defer unix.Close(stderr)
	l := launch{
		args: s.config.Args, as: as, dir: s.config.Workdir, session: true,
		env: mergeEnv(s.env, s.environment, as.home), files: [3]int{null, stdout, stderr},
	}
	if s.config.HostProcess || !isPrivileged() {
		return s.reaper.start(l.start)
	}
	if err := enableDump(); err != nil { // a wipe may have run threads as other users
		return 0, nil, startErrorf("enable dumping: %s", err)
	}
	return s.reaper.start(l.startByHelper)
}

func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// startErrorExitCode returns init's exit code if the main process cannot be
// started.
func startErrorExitCode(startErr *shim.WireError) int {
	if startErr.Reason == runtime.StartBinaryNotFound {
		return exitNotFound
	}
	return exitNotExecutable
}

// prepareVolumes gives unused volumes to the container's user. An engine
// creates them owned by root.
func (s *supervisor) prepareVolumes() {
	as, err := containerAccounts.lookup(s.config.User)
	if err != nil || !isPrivileged() {
		return // startMain returns the error, or the owner cannot be changed
	}
	for _, target := range s.config.Volumes {
		if err := chownVolume(filepath.Join(s.config.Root, target), as); err != nil {
			logError("prepare volume", err)
		}
	}
}

func chownVolume(path string, as identity) error {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	names, _ := dir.Readdirnames(1) // an error means that the directory is empty
	if len(names) > 0 || info.Sys().(*syscall.Stat_t).Uid != 0 {
		return nil
	}
	return dir.Chown(as.uid, as.gid)
}
