package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// signals are the signals that signal and kill support.
func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT,
		"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1,
	}
}

func hang([]string) error {
	for {
		<-time.After(time.Hour) // a bare select would be a deadlock to the runtime
	}
}

func ignoreTerm([]string) error {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println("ignoring")
	return hang(nil)
}

// recordSignals records the signals that may ask a main process to exit.
func recordSignals(args []string) error {
	names := map[os.Signal]string{
		syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT",
		syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2",
	}
	signals := make(chan os.Signal, len(names))
	for sig := range names {
		signal.Notify(signals, sig)
	}
	fmt.Println("noted")
	for sig := range signals {
		if err := appendTo([]string{args[0], names[sig]}); err != nil {
			return err
		}
	}
	return nil
}

func signalSelf(args []string) error {
	sig, ok := signals()[args[0]]
	if !ok {
		return fmt.Errorf("no such signal: %s", args[0])
	}
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		return err
	}
	return hang(nil)
}

func kill(args []string) error {
	pid, err := resolvePID(args[0])
	if err != nil {
		return err
	}
	sig, ok := signals()[args[1]]
	if !ok || pid < 1 {
		return fmt.Errorf("kill %s %s: no such process or signal", args[0], args[1])
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return nil
}

func resolvePID(name string) (int, error) {
	switch name {
	case "shim":
		return os.Getppid(), nil
	case "main":
		return strconv.Atoi(os.Getenv("HOSTLER_MAIN_PID"))
	case "init":
		p, err := readProc(os.Getppid())
		return p.parent, err
	}
	return strconv.Atoi(name)
}

// child returns a command that runs this program again.
func child(args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...)
	c.Args[0] = os.Args[0]
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c
}

// doubleFork leaves a grandchild: the child in between has exited before this.
func doubleFork(args []string) error {
	if len(args) > 1 {
		return child("hang", args[0]).Start()
	}
	return child("double-fork", args[0], "between").Run()
}

func newSession(args []string) error {
	c := child("hang", args[0])
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c.Start()
}

// startPrintOnTerm waits until its child handles SIGTERM.
func startPrintOnTerm(args []string) error {
	c := child("say-at-term", args[0])
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	c.ExtraFiles = []*os.File{w}
	if err := c.Start(); err != nil {
		return err
	}
	w.Close()
	_, err = r.Read(make([]byte, 1))
	return err
}

func printOnTerm(args []string) error {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	if _, err := os.NewFile(3, "ready").Write([]byte{1}); err != nil {
		return err
	}
	<-term
	return echo(args)
}

// stormSize bounds a storm if the container does not: each process has at most
// that many running children, and there are two generations.
const stormSize = 8

func forkstorm(args []string) error {
	signal.Ignore(syscall.SIGTERM)
	if len(args) > 1 {
		return forkAndExit(args[0])
	}
	fmt.Println("ignoring")
	for {
		running := make([]*exec.Cmd, 0, stormSize)
		for range stormSize {
			c := child("forkstorm", args[0], "child")
			if c.Start() == nil {
				running = append(running, c)
			}
		}
		for _, c := range running {
			_ = c.Wait() // the storm continues whatever its result
		}
	}
}

// forkAndExit leaves a child and exits, so that the tree never settles.
func forkAndExit(marker string) error {
	c := exec.Command("/proc/self/exe", "exit", "0", marker)
	return c.Start()
}

// process is a line of /proc.
type process struct {
	pid, parent int
	state       string
}

func readProc(pid int) (process, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	// The name stands in brackets and may hold anything.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	return process{pid: pid, parent: parent, state: fields[0]}, err
}

// allProcs skips processes that exit in the meantime.
func allProcs() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readProc(pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

func ps(args []string) error {
	all, err := allProcs()
	if err != nil {
		return err
	}
	return printProcs(all, args[0])
}

// ownPS is ps without the processes of other containers, which a container sees
// that shares the machine's process ids.
func ownPS(args []string) error {
	all, err := allProcs()
	if err != nil {
		return err
	}
	top, err := resolvePID("init")
	if err != nil {
		return err
	}
	return printProcs(descendants(all, top), args[0])
}

// printProcs prints the processes whose command line has a part.
func printProcs(all []process, part string) error {
	for _, p := range all {
		argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if err != nil || p.pid == os.Getpid() || p.state == "Z" || p.state == "X" {
			continue
		}
		line := strings.ReplaceAll(strings.TrimRight(string(argv), "\x00"), "\x00", " ")
		if strings.Contains(line, part) {
			fmt.Println(p.pid, line)
		}
	}
	return nil
}

// descendants returns a process and those that descend from it.
func descendants(all []process, top int) []process {
	parents := make(map[int]int, len(all))
	for _, p := range all {
		parents[p.pid] = p.parent
	}
	var list []process
	for _, p := range all {
		up := p.pid
		for up > 0 && up != top {
			up = parents[up]
		}
		if up == top {
			list = append(list, p)
		}
	}
	return list
}

// state prints the letter of a process's state.
func state(args []string) error {
	pid, err := resolvePID(args[0])
	if err != nil {
		return err
	}
	p, err := readProc(pid)
	if err != nil {
		return err
	}
	fmt.Println(p.state)
	return nil
}

func zombies([]string) error { return printCount("Z") }

func stopped([]string) error { return printCount("T") }

// printCount prints how many processes of the container are in a state.
func printCount(state string) error {
	all, err := allProcs()
	if err != nil {
		return err
	}
	top, err := resolvePID("init")
	if err != nil {
		return err
	}
	n := 0
	for _, p := range descendants(all, top) {
		if p.state == state {
			n++
		}
	}
	_, err = fmt.Println(n)
	return err
}
