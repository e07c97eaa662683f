package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// Create is runtime.Lifecycle.Create. The spec is written last: a directory
// without one is not a container yet.
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) error {
	if err := r.Check(ctx, spec); err != nil {
		return fmt.Errorf("create container %s: %w", spec.ID, err)
	}
	if !idPattern.MatchString(spec.ID) {
		return fmt.Errorf("create container %q: %w: the id is not valid as the name of a directory", spec.ID, runtime.ErrInvalid)
	}
	if len(spec.Command) == 0 {
		return fmt.Errorf("create container %s: %w: a command is required, because images are ignored",
			spec.ID, runtime.ErrInvalid)
	}
	p := r.paths(spec.ID)
	for _, path := range []string{p.specFile(), p.destroyingDir()} {
		if _, err := os.Stat(path); err == nil {
			return fmt.Errorf("create container %s: %w", spec.ID, runtime.ErrExists)
		}
	}
	if err := makeDirs(p, spec); err != nil {
		return unavailableError("create container "+spec.ID, err)
	}
	return p.writeRecord(record{Spec: spec, Protocol: shim.Protocols().Format()})
}

func makeDirs(p containerPaths, spec runtime.Spec) error {
	dirs := []string{p.dir, p.rootDir(), p.hostPath("/tmp"), p.hostPath(spec.Workdir)}
	for _, v := range spec.Volumes {
		dirs = append(dirs, p.hostPath(v.Target))
	}
	for _, path := range dirs {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Dir(p.socketFile()), 0o700)
}

// linkAskProgram creates the program that the container's processes send requests
// with: a link to the shim of this server, which also becomes their init.
func (r *Runtime) linkAskProgram(p containerPaths) error {
	if err := os.MkdirAll(p.askDir(), 0o755); err != nil {
		return err
	}
	// The link is made at another path, so that there is one at any time.
	made := filepath.Join(p.dir, "program."+rand.Text())
	defer os.Remove(made) //nolint:errcheck // it is there if two links are of one file: then a rename does nothing
	if os.Link(r.shim, made) != nil {
		// another filesystem, or another user's file
		if err := os.Symlink(r.shim, made); err != nil {
			return err
		}
	}
	return os.Rename(made, filepath.Join(p.askDir(), shim.AskBinaryName))
}

// fileProgram is backend.Options.FileProgram.
func (r *Runtime) fileProgram(id string) (program, root string) {
	p := r.paths(id)
	return filepath.Join(p.askDir(), shim.AskBinaryName), p.rootDir()
}

// resume starts the init of a container, unless it runs, and calls change.
func (r *Runtime) resume(ctx context.Context, id string, change func(context.Context) error) error {
	p, err := r.lookup(id)
	if err != nil {
		return err
	}
	if _, err = p.runningInit(); errors.Is(err, runtime.ErrNotRunning) {
		err = r.startInit(ctx, p)
		r.sessions.Get(id).Disconnect() // from the earlier init, whose end may not have been noticed
	}
	if err != nil {
		return err
	}
	return change(ctx)
}

// startInit has the shim start its init as a daemon.
func (r *Runtime) startInit(ctx context.Context, p containerPaths) error {
	c, version, err := p.readCompatible()
	if err != nil {
		return err
	}
	if version != shim.Version {
		// The program is that of this server, not the one that the container had.
		c.Protocol = shim.Protocols().Format()
		if err := p.writeRecord(c); err != nil {
			return err
		}
	}
	if err := r.linkAskProgram(p); err != nil {
		return unavailableError("link the program of requests", err)
	}
	env, err := r.environment(p, c.Spec)
	if err != nil {
		return err
	}
	daemon := exec.CommandContext(ctx, r.shim, "daemon", "--record", p.record, "--log", p.logFile(), "--alive", p.dir)
	daemon.Env, daemon.Dir = env, "/"
	var stderr bytes.Buffer
	daemon.Stderr = &stderr
	if err := daemon.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return unavailableError("start the shim", errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return nil
}

// environment returns the environment of init and of everything in the
// container. Of the server's own it has only what is needed to find programs.
func (r *Runtime) environment(p containerPaths, spec runtime.Spec) ([]string, error) {
	config := shim.Config{
		Args: spec.Command, User: spec.User, Root: p.rootDir(), Workdir: p.hostPath(spec.Workdir),
		HostProcess: true, Socket: p.socketFile(), AskSocket: filepath.Join(p.askDir(), "sock"), ExitFile: p.exitFile(),
		Key:        shim.DeriveKey(r.secret, p.id),
		StopSignal: runtime.StopSignal(spec.StopSignal), StopGrace: spec.StopGracePeriod,
		FenceFile: p.fenceFile(),
	}
	for _, v := range spec.Volumes {
		config.Volumes = append(config.Volumes, v.Target)
	}
	settings, err := config.Env()
	if err != nil {
		return nil, err
	}
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": p.rootDir(), "TMPDIR": p.hostPath("/tmp"),
	}
	for name, value := range spec.Environment {
		env[name] = value
	}
	env[rootEnv] = p.rootDir()
	env[shim.AskBinDirEnv], env[shim.AskSocketEnv] = p.askDir(), config.AskSocket
	list := []string{settings}
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list, nil
}

// rootEnv is the variable with the path of a container's files. Destroy finds the
// container's processes by it.
const rootEnv = "HOSTLER_ROOT"
