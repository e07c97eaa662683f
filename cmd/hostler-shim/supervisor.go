package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// How long init keeps running if the main process could not be started.
const (
	// startErrorGrace is how long it waits for a session that reads the error.
	startErrorGrace = 30 * time.Second
	// startErrorLinger is how long it takes at most to deliver the error.
	startErrorLinger = time.Second
)

// Exit codes of init itself, as in shells.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// forwardedSignals are the signals that init forwards to the main process
// unless they make init stop.
var forwardedSignals = []syscall.Signal{
	syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// supervisor is init: it is the parent of the main process and of the workers,
// and it listens for sessions.
type supervisor struct {
	config   shim.Config
	bootID   string
	env      []string // of every process in the container
	reaper   *reaper
	workers  *workers
	runs     *runs
	commands *commands
	sessions *sessions
	asks     *asks
	ports    *ports
	// askListener is nil in a container of an older protocol.
	askListener *askListener
	// transfers holds a token for each file transfer.
	transfers chan struct{}
	kills     atomic.Int64 // how often all processes were killed, or are about to be

	// changeSem holds one token. Its holder may kill processes, start the main
	// process, and read or empty the filesystem.
	changeSem chan struct{}
	baseline  *baseline // nil before RecordBaseline; guarded by changeSem
	fence     fence     // guarded by changeSem
	// admitted is the greatest fence of any request, commands and copies
	// included. It is not smaller than fence.
	admitted atomic.Int64
	// mainFence is the fence of the change that started the main process, or
	// NoFence if init has started it with the container. Guarded by changeSem.
	mainFence int64
	// environment is that of the main process, over env. It is empty while there is
	// no main process. Guarded by changeSem.
	environment map[string]string
	// waitsForStart is true until the first change after a restart by the
	// engine: the main process is left to OpStartMain. Guarded by changeSem.
	waitsForStart bool
	// startWait ends the wait. It is nil if init may not exit. Guarded by
	// changeSem.
	startWait *time.Timer
	// hasExited is true after a restart by the engine until the main process is
	// started, also if it was stopped in between. Guarded by changeSem.
	hasExited bool

	main     mainProcess
	logPipes logPipes // of the main process
	halt     halt
}

// runInit is process 1 of a container, or the top process of a container that
// is a directory.
func runInit(args []string) int {
	var gate startGate
	if len(args) > 0 {
		var err error
		if gate, err = waitStartGate(); err != nil {
			logError("start", err)
			return exitFailed
		}
	}
	config, err := shim.ParseConfig(os.Getenv(shim.ConfigEnv))
	if err != nil {
		logError("start", err)
		return exitUsage
	}
	os.Unsetenv(shim.ConfigEnv)
	debug.SetMemoryLimit(initMemoryLimit)
	if err := becomeInit(&config); err != nil {
		logError("start", err)
		return exitFailed
	}
	s := newSupervisor(config)
	if err := protectStateDir(config.FenceFile); err != nil {
		logError("start", err)
		return exitFailed
	}
	if s.fence, err = openFence(config.FenceFile); err != nil {
		logError("start", err)
		return exitFailed
	}
	s.admitted.Store(s.fence.current)
	if config.Socket == "" {
		config.Socket = defaultSocket()
	}
	listener, err := listen(config.Socket)
	if err != nil {
		logError("listen", err)
		return exitFailed
	}
	if err := s.listenAsks(); err != nil {
		logError("listen for requests", err)
		return exitFailed
	}
	signals := s.subscribeSignals()
	// These goroutines end with the process.
	go s.reaper.run()
	go s.handleSignals(signals)
	if !config.HostProcess {
		go new(engineWatchdog).run()
	}
	s.prepareVolumes()
	if startedBefore(config.StartedMarker) || s.fence.current > shim.NoFence {
		s.waitForStart()
	} else {
		s.startOrLinger()
	}
	gate.notifyReady()
	go s.workers.warmUp()
	s.accept(listener) // returns only when the socket is unusable
	return exitFailed
}

// becomeInit gives this process the user, the limits and the role of init.
func becomeInit(config *shim.Config) error {
	if err := resolveWorkdir(config); err != nil {
		return err
	}
	if config.HostProcess {
		disableDump()
	} else if err := switchToShimUser(inheritAllCaps); err != nil {
		return err
	}
	restrictDirs(shim.RunDir, shim.WritableMirrorDir)
	if os.Getpid() == 1 {
		return nil // process 1 is a subreaper by default
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	return nil
}

// resolveWorkdir resolves the directory "." while init is still in it.
func resolveWorkdir(config *shim.Config) error {
	if config.Workdir != "." {
		return nil
	}
	var err error
	config.Workdir, err = os.Getwd()
	return err
}

// restrictDirs closes those directories that belong to the shim to all others.
// Some engines give a temporary filesystem the mode that its mount point had
// when the container was created, whatever the configuration requests.
func restrictDirs(dirs ...string) {
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != nil || st.Uid != shim.UID || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			logError("restrict "+dir, err)
		}
	}
}

func newSupervisor(config shim.Config) *supervisor {
	s := &supervisor{
		config:    config,
		bootID:    rand.Text(),
		env:       mergeEnv(withoutOwnHome(os.Environ()), config.Environment, ""),
		reaper:    newReaper(),
		runs:      newRuns(),
		changeSem: make(chan struct{}, 1),
		halt:      halt{stopped: make(chan struct{})},
	}
	s.workers = &workers{reaper: s.reaper, env: s.env, defaultUser: config.User, hostProcess: config.HostProcess, slots: make(chan struct{}, maxRuns)}
	s.asks = newAsks(&s.admitted)
	s.commands = &commands{admit: s.admit}
	s.ports = newPorts(s.admit)
	s.sessions, s.transfers = newSessions(os.Geteuid() == shim.UID), make(chan struct{}, maxTransfers)
	return s
}

// startOrLinger starts the main process. If it cannot be started, init keeps
// running only long enough to report the error.
func (s *supervisor) startOrLinger() {
	if err := s.startMain(); err != nil {
		logError("start the main process", err)
		time.AfterFunc(startErrorGrace, s.exitStartFailed)
	}
}

// exitStartFailed ends init because the main process could not be started.
func (s *supervisor) exitStartFailed() {
	if startErr := s.main.startError(); startErr != nil {
		s.exit(startErrorExitCode(startErr))
	}
}

// subscribeSignals subscribes to all signals that init handles.
func (s *supervisor) subscribeSignals() <-chan os.Signal {
	wanted := []os.Signal{syscall.SIGTERM, syscall.Signal(shim.HaltSignal)}
	for _, number := range forwardedSignals {
		wanted = append(wanted, number)
	}
	for _, number := range s.config.StopSignals {
		wanted = append(wanted, syscall.Signal(number))
	}
	signals := make(chan os.Signal, len(wanted))
	signal.Notify(signals, wanted...)
	return signals
}

// staysForState reports whether the server may have to save a tenant's files before
// init ends: a tenant has had the container, and the server has not asked for the end.
func (s *supervisor) staysForState() bool {
	return s.config.StaysForState && s.config.StopGrace > 0 && s.admitted.Load() > runtime.FirstFence && !s.halt.isAsked()
}

// stopBySignal stops the main process. If the server may have to save a tenant's
// files, init stays for the grace period.
func (s *supervisor) stopBySignal() {
	stay := s.staysForState()
	if stay {
		s.halt.hold()
	}
	s.stopMain(stay)
	if stay {
		time.AfterFunc(s.config.StopGrace, func() { s.stopMain(false) })
	}
}

// handleSignals stops the main process on a stop signal and forwards all other
// signals to it. Without a main process, SIGINT ends init.
func (s *supervisor) handleSignals(signals <-chan os.Signal) {
	for sig := range signals {
		number := sig.(syscall.Signal)
		switch {
		case number == shim.HaltSignal:
			s.stopMain(true)
		case number == syscall.SIGTERM || slices.Contains(s.config.StopSignals, int(number)):
			s.stopBySignal()
		case !s.main.signal(number) && number == syscall.SIGINT:
			s.exit(0)
		}
	}
}

// exitOnce ensures that the first reason to exit determines the exit code.
var exitOnce sync.Once

// exit ends the container. The kernel kills every process with process 1. In a
// container that is a directory, exit kills them.
func (s *supervisor) exit(code int) {
	exitOnce.Do(func() {
		s.runs.markLost() // before their workers are killed
		s.commands.markLost()
		s.kills.Add(1)
		if s.config.HostProcess && !proctree.KillDescendants(os.Getpid(), shim.KillTimeout) {
			logError("exit", fmt.Errorf("processes survived SIGKILL"))
		}
		s.logPipes.finish()
		if s.config.ExitFile != "" {
			if err := writeExitFile(s.config.ExitFile, code); err != nil {
				logError("write the exit file", err)
			}
		}
		os.Exit(code)
	})
}

// writeExitFile writes the exit code atomically.
func writeExitFile(path string, code int) error {
	next := path + ".new"
	if err := os.WriteFile(next, fmt.Appendln(nil, code), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
