// Package backend is what the backends have in common whose containers run the
// shim as process 1: the calls of runtime.Runtime that go to the shim, and what
// is around them.
//
// A backend embeds Containers and provides Options. It keeps what depends on its
// engine: how containers are created, started, observed and destroyed, and how
// the shim in one is reached. The errors of its functions are those of package
// runtime.
package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// Options are what a backend provides.
type Options struct {
	// Resume has the engine start process 1 of a container that exited, or was
	// never started, and calls change when the shim can be reached, again while
	// that may help.
	Resume func(ctx context.Context, id string, change func(context.Context) error) error
	// Restarted is called after the shim has restarted a container. It records the
	// start of one that had exited. Nil means that the engine records that.
	Restarted func(ctx context.Context, id string) error
	// Status is that of runtime.Observer.
	Status func(ctx context.Context, id string) (runtime.Status, error)
	// Mounts returns the volumes of a container in which files can be written.
	// Nil means that no volume is read-only.
	Mounts func(ctx context.Context, id string) ([]Mount, error)
	// CopyLog copies the end of a container's log, of both streams. Nil means
	// that the backend implements Logs, and that the end of its log has an exact
	// position.
	CopyLog func(ctx context.Context, id string, part LogPart, to io.Writer) error
	// FileProgram returns where a command in a container finds the program
	// shim.AskBinaryName, and the directory that confines its files. Nil means
	// shim.AskBinaryPath and the container's root.
	FileProgram func(id string) (program, root string)
	// Secret is that of shim.Options.
	Secret []byte
}

// Containers are the containers of a backend. It implements runtime.Execer,
// runtime.Files, runtime.Images, runtime.Recycler, runtime.Requester, and the parts of runtime.Lifecycle and
// runtime.Observer that go to the shim.
type Containers struct {
	sessions *shim.Sessions
	options  Options

	// Tests replace these.
	programs    fileCommands
	fileSilence time.Duration
}

// New returns the containers that the sessions reach.
func New(sessions *shim.Sessions, o Options) Containers {
	return Containers{sessions: sessions, options: o, fileSilence: fileSilence}
}

// Protocols implements runtime.Observer.Protocols.
func (c Containers) Protocols() runtime.Protocols { return shim.Protocols() }

// Reach implements runtime.Observer.Reach.
func (c Containers) Reach(ctx context.Context, id string) error {
	return wrap(c.sessions.Get(id).Open(ctx), "reach the container %s", id)
}

// Start implements runtime.Lifecycle.Start. The shim refuses a smaller fence.
func (c Containers) Start(ctx context.Context, id string, fence int64) error {
	return wrap(c.resumeMain(ctx, id, fence, nil), "start the container %s", id)
}

// resumeMain has the engine start process 1, unless it runs, and the shim the main
// process with the environment.
func (c Containers) resumeMain(ctx context.Context, id string, fence int64, environment map[string]string) error {
	session := c.sessions.Get(id)
	return c.options.Resume(ctx, id, func(ctx context.Context) error { return session.StartMainWith(ctx, fence, environment) })
}

// Restart implements runtime.Lifecycle.Restart. In a running container the shim
// does it, in milliseconds. The engine starts an exited one, and the shim starts
// the main process: it refuses a smaller fence before that.
func (c Containers) Restart(ctx context.Context, id string, fence int64) error {
	return c.RestartWith(ctx, id, fence, nil)
}

// RestartWith implements runtime.Environments.RestartWith, as Restart does.
func (c Containers) RestartWith(ctx context.Context, id string, fence int64, environment map[string]string) error {
	err := c.sessions.Get(id).RestartWith(ctx, fence, environment)
	if hasExited(err) {
		err = c.resumeMain(ctx, id, fence, environment)
	}
	if err == nil && c.options.Restarted != nil {
		err = c.options.Restarted(ctx, id)
	}
	return wrap(err, "restart the container %s", id)
}

// Stop implements runtime.Lifecycle.Stop. The engine starts process 1 of an exited
// container, whose main process is not started: it could change the files, or
// exit at once.
func (c Containers) Stop(ctx context.Context, id string, fence int64) error {
	return wrap(c.stop(ctx, id, fence), "stop the container %s", id)
}

func (c Containers) stop(ctx context.Context, id string, fence int64) error {
	stop := func(ctx context.Context) error { return c.sessions.Get(id).Stop(ctx, fence) }
	err := stop(ctx)
	if !hasExited(err) {
		return err
	}
	status, statusErr := c.options.Status(ctx, id)
	switch {
	case statusErr != nil:
		return statusErr
	case status.State == runtime.Created:
		return err // its first process 1 would start the main process
	}
	return c.options.Resume(ctx, id, stop)
}

// hasExited reports whether a call failed because its container had exited, or
// exited during the call.
func hasExited(err error) bool {
	return errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrContainerExited)
}

// Exec implements runtime.Execer.Exec. On an open session it costs the engine
// nothing.
func (c Containers) Exec(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	result, err := imageHookResult(cmd, c.sessions.Get(id).Exec)(ctx, imageHookCommand(cmd))
	return result, wrap(err, "run a command in the container %s", id)
}

// WaitResult implements runtime.Execer.WaitResult.
func (c Containers) WaitResult(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	result, err := imageHookResult(cmd, c.sessions.Get(id).WaitResult)(ctx, cmd)
	return result, wrap(err, "request an outcome from the container %s", id)
}

// Output implements runtime.Outputs.Output.
func (c Containers) Output(ctx context.Context, id, runID string) (stdout, stderr runtime.Output, err error) {
	stdout, stderr, err = c.sessions.Get(id).Output(ctx, runID)
	return stdout, stderr, wrap(err, "read the output of a command in the container %s", id)
}

// RecordBaseline implements runtime.Recycler.RecordBaseline. The shim finds the
// changes itself: an engine compares modification times, which every owner of a
// file can set.
func (c Containers) RecordBaseline(ctx context.Context, id string, fence int64) error {
	return wrap(c.sessions.Get(id).RecordBaseline(ctx, fence), "record the baseline of the container %s", id)
}

// Wipe implements runtime.Recycler.Wipe.
func (c Containers) Wipe(ctx context.Context, id string, fence int64) error {
	session := c.sessions.Get(id)
	if c.options.CopyLog == nil {
		return wrap(session.Wipe(ctx, fence), "wipe the container %s", id)
	}
	err := session.WipeWithLogMarks(ctx, fence, func(ctx context.Context, lines int64, to io.Writer) error {
		return c.options.CopyLog(ctx, id, LogPart{Lines: lines, Current: true}, to)
	})
	return wrap(err, "wipe the container %s", id)
}

// ServeRequests implements runtime.Requester.ServeRequests.
func (c Containers) ServeRequests(ctx context.Context, id string, fence int64, handle runtime.RequestHandler) error {
	return wrap(c.sessions.Get(id).ServeRequests(ctx, fence, handle), "serve the requests of the container %s", id)
}

// LastModified implements runtime.Files.LastModified.
func (c Containers) LastModified(ctx context.Context, id string, dirs []string) (time.Time, error) {
	at, err := c.sessions.Get(id).LastModified(ctx, dirs)
	return at, wrap(err, "find the last change in the container %s", id)
}

// wrap adds to an error what was to be done. It returns nil for nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
