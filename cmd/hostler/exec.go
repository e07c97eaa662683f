package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// exitCommandTimeout is the exit status of a command that has reached its timeout.
const exitCommandTimeout = 124

// execFlags are the flags of exec.
type execFlags struct {
	stdin, terminal, detach bool
	attach, detachKeys      string
	environment             []string
	request                 client.CommandRequest
}

func newExecCmd() *cobra.Command {
	var r remote
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec CLAIM [-it] -- COMMAND [ARG...]",
		Short: "Run a command in a claim's container",
		Long: `Run a command in the container of a claim, and exit with its exit status: 128 and
the number of the signal that ended it, and 124 if its timeout has passed. Input
that is not a terminal is passed to it; -i passes a terminal, and -t gives the
command one.

A connection that is lost is made again: no output is lost or shown twice. The
command is ended when this one is interrupted, but not with --detach, and not when
it is left with the detach keys. Attach to it again with --attach, which shows the
output that was not read yet. It ends with its claim at the latest.`,
		Example: "  hostler exec 0199... -it -- /bin/sh",
		Args:    cobra.MinimumNArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if err := f.check(cmd, args[1:]); err != nil {
				return err
			}
			if f.detach {
				return r.execDetached(ctx, cmd, c, args[0], f.request)
			}
			return f.run(ctx, cmd, c, args[0])
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.stdin, "stdin", "i", false, "pass the terminal's input")
	flags.BoolVarP(&f.terminal, "tty", "t", false, "give the command a terminal")
	flags.BoolVarP(&f.detach, "detach", "d", false, "print the command's id and leave it running")
	flags.StringVar(&f.attach, "attach", "", "attach to the command of this id")
	flags.StringVar(&f.detachKeys, "detach-keys", "ctrl-p,ctrl-q", "keys that leave a command with -t running")
	flags.StringVar(&f.request.User, "user", "", "the command's user: a uid, uid:gid, name or name:group (default the container's)")
	flags.StringVar(&f.request.Workdir, "workdir", "", "the command's working directory (default the container's)")
	flags.StringArrayVarP(&f.environment, "env", "e", nil, "a variable, as NAME=VALUE; can be repeated")
	flags.DurationVar(&f.request.Timeout, "timeout", 0, "end the command after this time (default never)")
	r.flags(cmd)
	return cmd
}

// check completes the request, and returns what is wrong with the flags.
func (f *execFlags) check(cmd *cobra.Command, command []string) error {
	if f.request.Command = command; (len(command) > 0) == (f.attach != "") {
		return usagef(cmd, "name a command after --, or one that runs with --attach")
	}
	if f.detach && (f.stdin || f.terminal || f.attach != "") {
		return usagef(cmd, "--detach is used without -i, -t and --attach")
	}
	if f.terminal && (!isTerminalInput(cmd.InOrStdin()) || !isTerminal(cmd.OutOrStdout())) {
		return usagef(cmd, "-t needs a terminal as input and output")
	}
	if _, err := parseKeys(f.detachKeys); err != nil {
		return usagef(cmd, "--detach-keys: %v", err)
	}
	f.request.Environment = map[string]string{}
	for _, variable := range f.environment {
		name, value, ok := strings.Cut(variable, "=")
		if !ok {
			return usagef(cmd, "--env %q is not NAME=VALUE", variable)
		}
		f.request.Environment[name] = value
	}
	return nil
}

// execDetached starts a command and prints its id.
func (r *remote) execDetached(ctx context.Context, cmd *cobra.Command, c *client.Client, claim string, request client.CommandRequest) error {
	started, err := c.StartCommand(ctx, claim, request)
	if err != nil {
		return err
	}
	return r.printResult(cmd.OutOrStdout(), map[string]string{"id": started.ID}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, started.ID)
		return err
	})
}

// run runs a command, or attaches to one, until it has ended or was left.
func (f *execFlags) run(ctx context.Context, cmd *cobra.Command, c *client.Client, claim string) error {
	in := cmd.InOrStdin()
	f.request.Input = f.stdin || f.terminal || !isTerminalInput(in)
	if f.terminal {
		f.request.Terminal = terminalSize(cmd.OutOrStdout())
	}
	started, err := f.open(ctx, c, claim)
	if err != nil {
		return err
	}
	started.OnLost = func(error) { fmt.Fprint(cmd.ErrOrStderr(), "connection lost; reconnecting\r\n") }
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if f.terminal {
		restore, err := makeRaw(in)
		if err != nil {
			return err
		}
		defer restore()
		go followSize(ctx, cmd.OutOrStdout(), started.Resize) // ends with the context
	}
	if f.request.Input {
		// It ends with the program: a read of a terminal cannot be interrupted.
		go f.sendInput(ctx, in, started, cancel)
	}
	result, err := started.Wait(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
	if errors.Is(context.Cause(ctx), errDetached) {
		fmt.Fprintf(cmd.ErrOrStderr(), "\r\nthe command continues; return to it with `hostler exec %s -it --attach %s`\r\n", claim, started.ID)
		return nil
	}
	if err != nil {
		f.endInterrupted(ctx, c, claim, started.ID)
		return err
	}
	return exitOf(result)
}

// open starts the command, or attaches to it.
func (f *execFlags) open(ctx context.Context, c *client.Client, claim string) (*client.Command, error) {
	if f.attach != "" {
		return c.AttachCommand(ctx, claim, f.attach, client.AllKept)
	}
	return c.StartCommand(ctx, claim, f.request)
}

// interruptTimeout bounds how long an interrupted program takes to end its command.
const interruptTimeout = 10 * time.Second

// endInterrupted ends the command that this program has started when it is
// interrupted.
func (f *execFlags) endInterrupted(ctx context.Context, c *client.Client, claim, id string) {
	if f.attach != "" || !errors.Is(context.Cause(ctx), context.Canceled) {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), interruptTimeout, client.ErrNoResponse)
	defer cancel()
	_, _ = c.EndCommand(ctx, claim, id) // otherwise it ends with the claim
}

// exitOf returns the exit status of a command.
func exitOf(result client.CommandResult) error {
	switch {
	case result.TimedOut:
		return &exitError{exitCommandTimeout, errors.New("the command has reached its timeout")}
	case result.ExitCode != 0:
		return &exitError{code: result.ExitCode}
	}
	return nil
}

// errDetached is the cause of a context whose user has left the command.
var errDetached = errors.New("detached")

// sendInput passes input to the command until its end, or until the detach keys.
func (f *execFlags) sendInput(ctx context.Context, in io.Reader, to *client.Command, leave context.CancelCauseFunc) {
	var keys detachKeys
	if f.terminal {
		keys.sequence, _ = parseKeys(f.detachKeys) // check has done it
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		text, detached := keys.filter(buf[:n])
		if to.Send(ctx, text) != nil {
			return // Wait returns how the command ended, or why it cannot be reached
		}
		if detached {
			leave(errDetached)
			return
		}
		if err != nil {
			_ = to.CloseInput(ctx) // the same
			return
		}
	}
}
