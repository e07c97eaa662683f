package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// How long init stays when there is no main process for it to stay for.
const (
	// failedUntold is how long it waits for somebody to ask why.
	failedUntold = 30 * time.Second
	// failedTold is how long the answer may take to arrive.
	failedTold = time.Second
)

// Exit codes of init itself, as shells have them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// forwarded are the signals that init hands on to the main process, unless they
// tell init to stop.
var forwarded = []syscall.Signal{
	syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// supervisor is init: the parent of the main process and of the workers, and
// the one who listens.
type supervisor struct {
	config  shim.Config
	boot    string
	env     []string // what every process here gets
	reaper  *reaper
	workers *workers
	runs    *runs
	guests  *guests
	// transfers holds a token for each archive that is moved.
	transfers chan struct{}

	// changing holds one token: whoever has it may end processes, start the
	// main one, and read or empty the file system.
	changing chan struct{}
	baseline *baseline // nil before Seal; guarded by changing
	fence    fence     // guarded by changing

	main    mainProcess
	outlets outlets // of the main process
	halt    halt
}

// runInit is process 1 of a container, or the head of one that is a folder.
func runInit(args []string) int {
	var daemon leash
	if len(args) > 0 {
		var err error
		if daemon, err = awaitRelease(); err != nil {
			complain("start", err)
			return exitFailed
		}
	}
	config, err := shim.ParseConfig(os.Getenv(shim.EnvName))
	if err != nil {
		complain("start", err)
		return exitUsage
	}
	os.Unsetenv(shim.EnvName)
	if err := settleWorkdir(&config); err != nil {
		complain("start", err)
		return exitFailed
	}
	if config.Shared {
		hide()
	} else if err := takeOwnUser(allHeirs); err != nil {
		complain("start", err)
		return exitFailed
	}
	closeOwn(shim.RunDir, shim.AsideDir)
	if os.Getpid() != 1 {
		// As process 1 does without being asked.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			complain("become a subreaper", err)
			return exitFailed
		}
	}
	s := newSupervisor(config)
	if err := takeStateDir(config.FenceFile); err != nil {
		complain("start", err)
		return exitFailed
	}
	if s.fence, err = openFence(config.FenceFile); err != nil {
		complain("start", err)
		return exitFailed
	}
	if config.Socket == "" {
		config.Socket = ownSocket()
	}
	listener, err := listen(config.Socket)
	if err != nil {
		complain("listen", err)
		return exitFailed
	}
	signals := s.listenToSignals()
	// These goroutines end with the process.
	go s.reaper.run()
	go s.forward(signals)
	if !config.Shared {
		go new(entering).run()
	}
	s.prepareVolumes()
	if beganBefore(config.Began) {
		s.main.set(shim.MainStopped, 0, nil)
	} else {
		s.begin()
	}
	daemon.listening()
	go s.workers.warmUp()
	s.accept(listener) // returns only when the socket is unusable
	return exitFailed
}

// closeOwn closes those of the folders that are the shim's to all others. Some
// engines give a temporary filesystem the mode that its mount point had when
// the container was made, whatever they were told.
func closeOwn(dirs ...string) {
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != nil || st.Uid != shim.UID || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			complain("close "+dir, err)
		}
	}
}

func newSupervisor(config shim.Config) *supervisor {
	s := &supervisor{
		config:   config,
		boot:     rand.Text(),
		env:      merge(withoutOwnHome(os.Environ()), config.Environment, ""),
		reaper:   newReaper(),
		runs:     newRuns(),
		changing: make(chan struct{}, 1),
		halt:     halt{over: make(chan struct{})},
	}
	s.workers = &workers{reaper: s.reaper, env: s.env, shared: config.Shared, slots: make(chan struct{}, maxRuns)}
	s.guests, s.transfers = newGuests(), make(chan struct{}, maxTransfers)
	return s
}

// begin starts the main process. When it cannot be started, init stays only
// for as long as it takes to say why.
func (s *supervisor) begin() {
	if err := s.startMain(); err != nil {
		complain("start the main process", err)
		time.AfterFunc(failedUntold, s.exitFailed)
	}
}

// exitFailed ends init because there is no main process.
func (s *supervisor) exitFailed() {
	if fault := s.main.fault(); fault != nil {
		s.exit(failureCodes(fault))
	}
}

// listenToSignals asks the kernel for all signals that init knows.
func (s *supervisor) listenToSignals() <-chan os.Signal {
	wanted := []os.Signal{syscall.SIGTERM, syscall.Signal(shim.HaltSignal)}
	for _, number := range forwarded {
		wanted = append(wanted, number)
	}
	for _, number := range s.config.StopOn {
		wanted = append(wanted, syscall.Signal(number))
	}
	signals := make(chan os.Signal, len(wanted))
	signal.Notify(signals, wanted...)
	return signals
}

// forward obeys the signals that tell init to stop, and hands the others on.
// Without a main process, SIGINT is for init.
func (s *supervisor) forward(signals <-chan os.Signal) {
	for sig := range signals {
		number := sig.(syscall.Signal)
		switch {
		case number == shim.HaltSignal:
			s.stopMain(true)
		case number == syscall.SIGTERM || slices.Contains(s.config.StopOn, int(number)):
			s.stopMain(false)
		case !s.main.signal(number) && number == syscall.SIGINT:
			s.exit(0)
		}
	}
}

// exitOnce makes sure that the first reason to exit is the one on record.
var exitOnce sync.Once

// exit ends the container. The kernel ends every process with process 1; a
// container that is a folder has to be cleared by hand.
func (s *supervisor) exit(code int) {
	exitOnce.Do(func() {
		s.runs.lose() // before their workers are killed under them
		if s.config.Shared && !proctree.KillBelow(os.Getpid(), shim.KillBound) {
			complain("exit", fmt.Errorf("processes outlive SIGKILL"))
		}
		s.outlets.finish()
		if s.config.ExitFile != "" {
			if err := writeExit(s.config.ExitFile, code); err != nil {
				complain("record the exit", err)
			}
		}
		os.Exit(code)
	})
}

// writeExit leaves the whole record or none.
func writeExit(path string, code int) error {
	next := path + ".new"
	if err := os.WriteFile(next, fmt.Appendln(nil, code), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
