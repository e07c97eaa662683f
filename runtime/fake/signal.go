package fake

import "fmt"

// Signal is one of those that a program may send.
type Signal struct {
	Name   string // "SIGTERM"
	Number int
}

var (
	sigKill  = Signal{"SIGKILL", 9}
	sigTerm  = Signal{"SIGTERM", 15}
	sigStop  = Signal{"SIGSTOP", 19}
	sigWinch = Signal{"SIGWINCH", 28}
)

// signals are keyed by the name without SIG.
var signals = map[string]Signal{
	"KILL": sigKill, "TERM": sigTerm, "STOP": sigStop, "INT": {"SIGINT", 2},
	"HUP": {"SIGHUP", 1}, "SEGV": {"SIGSEGV", 11}, "USR1": {"SIGUSR1", 10},
	"ABRT": {"SIGABRT", 6}, "QUIT": {"SIGQUIT", 3}, "USR2": {"SIGUSR2", 12},
	"XCPU": {"SIGXCPU", 24}, "XFSZ": {"SIGXFSZ", 25}, "WINCH": sigWinch,
}

// signalByNumber returns the signal of a number.
func signalByNumber(n int) Signal {
	for _, s := range signals {
		if s.Number == n {
			return s
		}
	}
	return Signal{fmt.Sprintf("signal %d", n), n}
}

// signal delivers s to a process. It is called without the container's lock,
// because it calls the handler of the process.
func (c *container) signal(p *Proc, s Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.dead || s != sigKill && s != sigStop && p.stopped:
		return // a stopped process gets it when it continues, which none does
	case s == sigStop:
		p.stopped = true
	case s != sigKill && p.traps[s.Name] != nil:
		f := p.traps[s.Name]
		c.mu.Unlock()
		defer c.mu.Lock()
		f()
	default:
		c.terminate(p, s)
	}
}

// terminate ends a process by a signal. The caller holds the container's lock.
func (c *container) terminate(p *Proc, s Signal) {
	if p.dead {
		return
	}
	p.signal = s.Name
	c.removeProc(p, 128+s.Number)
}

// removeProc removes a process from the table, and then ends its run, or with the
// main process the whole container. The caller holds the container's lock.
func (c *container) removeProc(p *Proc, code int) {
	p.dead, p.code = true, code
	delete(c.procs, p.pid)
	close(p.done)
	p.cancel()
	c.changed.Broadcast()
	if p.run != nil {
		p.run.liveProcs--
		if p.run.liveProcs == 0 {
			close(p.run.allExited)
		}
	}
	if p == c.main {
		c.main = nil
		c.handleExit(code)
	}
}
