// Command guest is all that runs in the containers of the soak. Its hooks take
// what they are to do from the tenant's name, which ends in a behaviour for
// post_claim and one for pre_release: "tenant-3.ok.hang".
//
//	guest main         the main process; at SIGUSR1 it leaves a daemon behind
//	guest check        the health check
//	guest look         find what other tenants left, and leave traces
//	guest act          behave as the tenant's name says
//	guest stay NAME    hang, deaf to SIGTERM
//	guest leave NAME   leave a stay behind and end
//
// What look finds it prints, each on a line that begins with FOUND, and ends
// with code 97.
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
		"main": mainProcess, "check": ok, "look": inspect, "act": act, "stay": stay, "leave": daemonise,
	}
	os.Exit(commands[os.Args[1]]())
}

func ok() int { return 0 }

// mainProcess is a workload that a hook can make leave something behind: what
// it starts is no child of the hook.
func mainProcess() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	for s := range signals {
		if s == syscall.SIGTERM {
			return 0
		}
		if err := start(&syscall.SysProcAttr{Setsid: true}, "stay", "of-main"); err != nil {
			fmt.Println("leave a daemon behind:", err)
		}
	}
	return 0
}

// chooseBehaviour is what the tenant's name says for this point.
func chooseBehaviour() string {
	parts := strings.Split(os.Getenv("HOSTLER_TENANT"), ".")
	place := map[string]int{"post_claim": 1, "pre_release": 2}[os.Getenv("HOSTLER_POINT")]
	if place == 0 || len(parts) <= place {
		return "ok"
	}
	return parts[place]
}

func act() int {
	behaviours := map[string]func() int{
		"ok": ok, "fail": func() int { return 3 }, "hang": hang, "deaf": stay,
		"fork": fork, "session": session, "storm": forkBomb, "spam": printForever, "hog": useMemory, "litter": leaveFiles,
		"daemon":      func() int { return signalMain(syscall.SIGUSR1) },
		"kill-main":   func() int { return signalMain(syscall.SIGKILL) },
		"kill-init":   func() int { return signalForeign(1, syscall.SIGTERM) },
		"kill-worker": func() int { return signalForeign(os.Getppid(), syscall.SIGKILL) },
		"stop-worker": func() int { return signalForeign(os.Getppid(), syscall.SIGSTOP) },
	}
	return behaviours[chooseBehaviour()]()
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

// signalForeign signals a process that is not ours to end, and waits for the worst.
func signalForeign(pid int, s syscall.Signal) int {
	fmt.Println("strike:", syscall.Kill(pid, s))
	return hang()
}

// start leaves a child of this program.
func start(attr *syscall.SysProcAttr, args ...string) error {
	c := exec.Command("/proc/self/exe", args...)
	c.Args[0], c.SysProcAttr = os.Args[0], attr
	return c.Start()
}

// daemonise ends at once: whoever started it has a grandchild then.
func daemonise() int { return code(start(nil, "stay", os.Args[2])) }

// fork waits for the child in between, so that only the grandchild is left.
func fork() int {
	c := exec.Command("/proc/self/exe", "leave", os.Getenv("HOSTLER_TENANT"))
	c.Args[0] = os.Args[0]
	return code(c.Run())
}

func session() int {
	return code(start(&syscall.SysProcAttr{Setsid: true}, "stay", os.Getenv("HOSTLER_TENANT")))
}

// forkBomb forks for as long as it is let, a few at a time: what it starts is
// stopped in the middle of starting the next.
func forkBomb() int {
	signal.Ignore(syscall.SIGTERM)
	for {
		if err := start(nil, "leave", os.Getenv("HOSTLER_TENANT")); err != nil {
			<-time.After(10 * time.Millisecond) // as many as there may be
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

// useMemory takes memory until somebody is killed for it.
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

// leaveFiles changes a file of the container itself, where that can be done.
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
