// Command testprog is the only program in the containers of the soak. Its hooks
// get their behavior from the tenant's name, which ends in a behavior for
// post_claim and one for pre_release: "tenant-3.ok.hang".
//
//	testprog main         the main process; at SIGUSR1 it leaves a daemon running
//	testprog check        the health check
//	testprog inspect      find traces of other tenants, and leave traces
//	testprog act          behave as in the tenant's name
//	testprog stay NAME    hang, and ignore SIGTERM
//	testprog leave NAME   start a stay and exit
//
// inspect prints each finding in a line that begins with FOUND, and exits with 97.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	commands := map[string]func() int{
		"main": mainProcess, "check": ok, "inspect": inspect, "act": act, "stay": stay, "leave": daemonize,
	}
	os.Exit(commands[os.Args[1]]())
}

func ok() int { return 0 }

// mainProcess is a workload that starts a daemon when a hook signals it: the
// daemon is not a child of the hook.
func mainProcess() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	for s := range signals {
		if s == syscall.SIGTERM {
			return 0
		}
		if err := start(&syscall.SysProcAttr{Setsid: true}, "stay", "of-main"); err != nil {
			fmt.Println("start a daemon:", err)
		}
	}
	return 0
}

// chooseBehavior returns the behavior in the tenant's name for this point.
func chooseBehavior() string {
	parts := strings.Split(os.Getenv("HOSTLER_TENANT"), ".")
	index := map[string]int{"post_claim": 1, "pre_release": 2}[os.Getenv("HOSTLER_POINT")]
	if index == 0 || len(parts) <= index {
		return "ok"
	}
	return parts[index]
}

func act() int {
	behaviors := map[string]func() int{
		"ok": ok, "fail": func() int { return 3 }, "hang": hang, "ignore-term": stay,
		"fork": fork, "session": session, "storm": forkBomb, "spam": printForever, "hog": useMemory, "litter": leaveFiles,
		"daemon":      func() int { return signalMain(syscall.SIGUSR1) },
		"kill-main":   func() int { return signalMain(syscall.SIGKILL) },
		"kill-init":   func() int { return signalForeign(1, syscall.SIGTERM) },
		"kill-worker": func() int { return signalForeign(os.Getppid(), syscall.SIGKILL) },
		"stop-worker": func() int { return signalForeign(os.Getppid(), syscall.SIGSTOP) },
	}
	return behaviors[chooseBehavior()]()
}

func hang() int {
	for {
		<-time.After(time.Hour)
	}
}

func stay() int {
	signal.Ignore(syscall.SIGTERM)
	return hang()
}

// signalForeign signals a process of Hostler's, and hangs.
func signalForeign(pid int, s syscall.Signal) int {
	fmt.Println("signal:", syscall.Kill(pid, s))
	return hang()
}

// start starts a child of this program and does not wait for it.
func start(attr *syscall.SysProcAttr, args ...string) error {
	c := exec.Command("/proc/self/exe", args...)
	c.Args[0], c.SysProcAttr = os.Args[0], attr
	return c.Start()
}

// daemonize starts a child and exits, so that its parent has a grandchild.
func daemonize() int { return code(start(nil, "stay", os.Args[2])) }

// fork starts a child that daemonizes, and waits for it: only a grandchild is
// left.
func fork() int {
	c := exec.Command("/proc/self/exe", "leave", os.Getenv("HOSTLER_TENANT"))
	c.Args[0] = os.Args[0]
	return code(c.Run())
}

func session() int {
	return code(start(&syscall.SysProcAttr{Setsid: true}, "stay", os.Getenv("HOSTLER_TENANT")))
}

// forkBomb forks until it is killed. Its children are killed while they start
// others.
func forkBomb() int {
	signal.Ignore(syscall.SIGTERM)
	for {
		if err := start(nil, "leave", os.Getenv("HOSTLER_TENANT")); err != nil {
			<-time.After(10 * time.Millisecond) // the limit of processes is reached
		}
	}
}

func printForever() int {
	piece := []byte(strings.Repeat("spam", 16<<10))
	for range 64 << 20 / len(piece) {
		if _, err := os.Stdout.Write(piece); err != nil {
			return 1
		}
	}
	return 0
}

// useMemory allocates memory until a process is killed for it.
func useMemory() int {
	var all [][]byte
	for {
		piece := make([]byte, 1<<20)
		for i := 0; i < len(piece); i += 4096 {
			piece[i] = 1
		}
		all = append(all, piece)
	}
}

// leaveFiles writes a file to the root filesystem, if it is writable.
func leaveFiles() int {
	fmt.Println("litter:", os.WriteFile("/litter", []byte("x"), 0o600))
	return 0
}

// signalMain signals the workload's own process.
func signalMain(s syscall.Signal) int {
	for _, p := range processes() {
		if len(p.args) == 2 && p.args[1] == "main" {
			return code(syscall.Kill(p.pid, s))
		}
	}
	fmt.Println("there is no main process")
	return 1
}

func code(err error) int {
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
