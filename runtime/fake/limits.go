package fake

import (
	"bytes"
	"strconv"
	"syscall"

	"github.com/hostler/hostler/runtime"
)

// countOutput counts what a run writes and reports whether that is more than its
// limit. The caller holds the lock.
func (r *run) countOutput(n int) bool {
	r.written += int64(n)
	if r.limits.Output == 0 || r.written <= r.limits.Output {
		return false
	}
	r.exceeded = runtime.LimitOutput
	return true
}

// exceed ends a process as the kernel does when it exceeds a limit.
func (p *Proc) exceed(limit runtime.Limit, s Signal) error {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.run != nil && !p.dead {
		p.run.exceeded = limit
	}
	p.c.terminate(p, s)
	return errPark
}

// limits returns those of a process's command.
func (p *Proc) limits() runtime.ProcessLimits {
	if p.run == nil {
		return runtime.ProcessLimits{}
	}
	return p.run.limits
}

// spin uses CPU time up to its limit.
func spin(p *Proc, _ []string) error {
	if p.limits().CPUTime == 0 {
		return errPark
	}
	return p.exceed(runtime.LimitCPUTime, signals["XCPU"])
}

func fill(p *Proc, args []string) error {
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	limit := p.limits().FileSize
	if limit == 0 || n <= limit {
		return p.WriteFile(args[0], bytes.Repeat([]byte{0}, int(n)))
	}
	if err := p.WriteFile(args[0], bytes.Repeat([]byte{0}, int(limit))); err != nil {
		return err
	}
	return p.exceed(runtime.LimitFileSize, signals["XFSZ"])
}

func allocate(p *Proc, args []string) error {
	n, err := strconv.ParseInt(args[0], 10, 64)
	if limit := p.limits().Memory; err == nil && limit > 0 && n > limit {
		return syscall.ENOMEM
	}
	return err
}

// consume runs out of memory if the container has less.
func consume(p *Proc, args []string) error {
	n, err := strconv.ParseInt(args[0], 10, 64)
	limit := p.c.spec.Limits.Memory
	if err != nil || limit == 0 || n <= limit {
		return err
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.run != nil && !p.dead {
		p.run.oomKilled = true
	}
	p.c.terminate(p, sigKill)
	return errPark
}
