package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// cluster is a cluster, and where its progress is printed.
type cluster struct {
	layout
	tools tools
	out   io.Writer
}

const (
	startTimeout  = 90 * time.Second // until a part works; a slow machine takes 10 s
	statusTimeout = 30 * time.Second // until a working part answers
	pollInterval  = 50 * time.Millisecond

	lockFile = "hostler-cluster.lock"
)

func (c cluster) logf(format string, args ...any) {
	fmt.Fprintf(c.out, "cluster: "+format+"\n", args...)
}

// withLock calls do while no other process changes the cluster.
func (c cluster) withLock(do func() error) error {
	if os.Geteuid() != 0 {
		return errors.New("a node needs root")
	}
	if err := claimDir(c.dir); err != nil {
		return err
	}
	file, err := os.OpenFile(c.Path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		c.logf("locked by another process, waiting")
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return do()
}

// claimDir creates the directory, or checks that it is a cluster's, because its
// content will be removed.
func claimDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, lockFile)); err != nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty and is not a cluster's", dir)
	}
	return nil
}

func (c cluster) withPart(name string, do func(part) error) error {
	p, err := partNamed(name)
	if err != nil {
		return fmt.Errorf("%w: %w", errInvalidUsage, err)
	}
	return c.withLock(func() error { return do(p) })
}

// step is a step of the start or the removal of a cluster.
type step struct {
	name string
	do   func(ctx context.Context) error
}

func (c cluster) upSteps() []step {
	return []step{
		{"removed the remains of an earlier cluster", c.clean},
		{"configured", func(context.Context) error { return configure(c.layout) }},
		{"network and control groups created", func(ctx context.Context) error {
			return errors.Join(makeNetwork(ctx, c.layout), makeCgroups(c.layout))
		}},
		{"etcd, API server and containerd started", c.launch("etcd", "apiserver", "containerd")},
		{"containerd works", c.await("containerd")},
		{"pause image loaded", func(ctx context.Context) error { return loadPause(ctx, c.layout, c.tools.pause) }},
		{"API server works", c.await("etcd", "apiserver")},
		{"controllers, scheduler and kubelet started", c.launch("controllers", "scheduler", "kubelet")},
		{"scheduler and controllers work", c.await("scheduler", "controllers")},
		{"node is ready for pods", c.await("kubelet")},
	}
}

// up starts the cluster unless it already works. A cluster that works in part is
// removed first, because its state is not needed.
func (c cluster) up(ctx context.Context) error {
	cause := c.check(ctx)
	if cause == nil {
		c.logf("is already up, kubeconfig %s", c.Kubeconfig())
		return nil
	}
	if _, err := os.Stat(c.Kubeconfig()); err == nil {
		c.logf("does not work (%v), recreating it", cause)
	}
	if _, err := os.Stat(c.tools.node); err != nil {
		return fmt.Errorf("find the node program: %w", err)
	}
	begun := time.Now()
	for _, s := range c.upSteps() {
		if err := s.do(ctx); err != nil {
			// The parts that were started would disturb the next attempt.
			undo := c.clean(context.WithoutCancel(ctx))
			return errors.Join(err, undo)
		}
		c.logf("%5.2f s  %s", time.Since(begun).Seconds(), s.name)
	}
	c.logf("is up, kubeconfig %s", c.Kubeconfig())
	return nil
}

// status reports whether the cluster works, and changes nothing.
func (c cluster) status(ctx context.Context) error {
	if err := c.check(ctx); err != nil {
		return fmt.Errorf("does not work: %w", err)
	}
	c.logf("works, kubeconfig %s", c.Kubeconfig())
	return nil
}

// check returns nil if every part runs and works. A running part gets some time
// to answer, because the machine may be busy.
func (c cluster) check(ctx context.Context) error {
	for _, p := range parts {
		running, err := p.isRunning(c.layout)
		if err != nil {
			return err
		}
		if !running {
			return fmt.Errorf("no %s runs", p.name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for _, p := range parts {
		if err := c.awaitPart(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// launch starts parts and does not wait for them.
func (c cluster) launch(names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, name := range names {
			p, err := partNamed(name)
			if err != nil {
				return err
			}
			if err := c.launchPart(ctx, p); err != nil {
				return c.withLog(ctx, p, err)
			}
		}
		return nil
	}
}

func (c cluster) launchPart(ctx context.Context, p part) error {
	start := func() error { return p.start(ctx, c.layout, c.tools) }
	if !p.changesSettings {
		return start()
	}
	return startKeepingSettings(ctx, c.layout, start, func() (bool, error) { return p.isRunning(c.layout) })
}

// await waits until parts work. It fails at once if one has exited; the error has
// the end of its log.
func (c cluster) await(names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, name := range names {
			p, err := partNamed(name)
			if err != nil {
				return err
			}
			if err := c.awaitPart(ctx, p); err != nil {
				return c.withLog(ctx, p, fmt.Errorf("wait for the %s: %w", p.name, err))
			}
		}
		return nil
	}
}

func (c cluster) awaitPart(ctx context.Context, p part) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return poll(ctx, pollInterval, func(ctx context.Context) error {
		running, err := p.isRunning(c.layout)
		if err != nil {
			return err
		}
		if !running {
			return &permanentError{errors.New("it has exited")}
		}
		return p.ready(ctx, c.layout)
	})
}

// withLog adds the end of a part's log to an error, unless ctx was canceled: then
// the part is not the cause.
func (c cluster) withLog(ctx context.Context, p part, err error) error {
	if ctx.Err() != nil {
		return err
	}
	data, readErr := os.ReadFile(c.Log(p.name))
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	return fmt.Errorf("%w; the end of %s:\n%s", err, c.Log(p.name), lastLines(data, 30))
}

// lastLines returns the last n lines of a text.
func lastLines(text []byte, n int) string {
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// load loads the images of files into the node.
func (c cluster) load(ctx context.Context, files []string) error {
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		if err := load(ctx, c.layout, path); err != nil {
			return err
		}
		c.logf("loaded %s", file)
	}
	return nil
}

// stop kills a part, as a crash would.
func (c cluster) stop(ctx context.Context, p part) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := killAll(ctx, func(argv []string) bool { return p.matches(c.layout, argv) }); err != nil {
		return fmt.Errorf("stop the %s: %w", p.name, err)
	}
	c.logf("stopped the %s", p.name)
	return nil
}

// start starts a part that was stopped.
func (c cluster) start(ctx context.Context, p part) error {
	running, err := p.isRunning(c.layout)
	if err != nil {
		return err
	}
	if !running {
		if _, err := os.Stat(c.Kubeconfig()); err != nil {
			return fmt.Errorf("there is no cluster: %w", err)
		}
		if err := c.launch(p.name)(ctx); err != nil {
			return err
		}
	}
	if err := c.await(p.name)(ctx); err != nil {
		return err
	}
	c.logf("the %s works", p.name)
	return nil
}
