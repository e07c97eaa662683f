package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/runtime"
)

// CommandRequest is a command to run in the container of a claim.
type CommandRequest struct {
	Command     []string              `json:"command" minItems:"1" maxItems:"1024" doc:"The program and its arguments." example:"[\"python3\",\"-c\",\"print(1)\"]"`
	Timeout     Duration              `json:"timeout,omitempty" doc:"After which it is ended; at most 24h. Default: 5m, and none for one that is detached or attached to."`
	User        string                `json:"user,omitempty" maxLength:"129" doc:"uid, uid:gid, name or name:group. Default: the container's own. Another one only where the workload's user is root."`
	Workdir     string                `json:"workdir,omitempty" maxLength:"4096" doc:"An absolute path. Default: the container's own."`
	Environment map[string]string     `json:"environment,omitempty" doc:"Over the container's."`
	Stdin       string                `json:"stdin,omitempty" doc:"Its input, of one that is waited for."`
	Input       bool                  `json:"input,omitempty" doc:"Input will be sent, to one that is not waited for. Default: its input is empty."`
	Terminal    *runtime.TerminalSize `json:"terminal,omitempty" doc:"The size of a terminal that it gets in place of three streams."`
	ID          string                `json:"id,omitempty" maxLength:"64" doc:"Names it: letters, digits and . _ -. A repeated request starts no second one. Default: a new one."`
	Detach      bool                  `json:"detach,omitempty" doc:"Answer when it has started."`
}

// CommandResult is how a command ended.
type CommandResult struct {
	ExitCode  int     `json:"exit_code" doc:"Its own, or 128 and the number of the signal."`
	Signal    string  `json:"signal,omitempty" doc:"That ended it."`
	TimedOut  bool    `json:"timed_out,omitempty" doc:"Its timeout passed before it exited."`
	Killed    bool    `json:"killed,omitempty" doc:"SIGKILL was needed."`
	Leaked    int     `json:"leaked_processes,omitempty" doc:"Processes that it left behind; they were killed."`
	OOMKilled bool    `json:"oom_killed,omitempty" doc:"The out-of-memory killer ended a process of it."`
	Duration  float64 `json:"duration_ms"`
}

// CompletedCommand is a command that was waited for.
type CompletedCommand struct {
	ID string `json:"id"`
	CommandResult
	Stdout runtime.Output `json:"stdout,omitzero" doc:"Its beginning and its end; omitted if empty."`
	Stderr runtime.Output `json:"stderr,omitzero"`
}

// ClaimCommand describes a command of a claim.
type ClaimCommand struct {
	ID        string         `json:"id"`
	Command   []string       `json:"command"`
	Terminal  bool           `json:"terminal,omitempty"`
	StartedAt time.Time      `json:"started_at"`
	Attached  bool           `json:"attached,omitempty" doc:"A client reads its output."`
	Output    int64          `json:"output_bytes" doc:"How much it has written."`
	Held      bool           `json:"held,omitempty" doc:"It waits, because its output is not acknowledged."`
	EndedAt   *time.Time     `json:"ended_at,omitempty"`
	Result    *CommandResult `json:"result,omitempty" doc:"Of one that has ended."`
}

// ClaimCommands are the commands of a claim.
type ClaimCommands struct {
	Items []ClaimCommand `json:"items" doc:"In the order of their start: those that run, and those that ended a short time ago."`
}

func viewResult(r runtime.Result) CommandResult {
	return CommandResult{
		ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut, Killed: r.Killed, Leaked: r.Leaked,
		OOMKilled: r.OOMKilled, Duration: float64(r.Duration) / float64(time.Millisecond),
	}
}

func viewCommand(s runtime.CommandStatus) ClaimCommand {
	c := ClaimCommand{
		ID: s.ID, Command: s.Args, Terminal: s.Terminal, StartedAt: s.Started, Attached: s.Attached,
		Output: s.Output, Held: s.Held, EndedAt: s.Ended,
	}
	if c.Command == nil {
		c.Command = []string{}
	}
	if s.Result != nil {
		result := viewResult(*s.Result)
		c.Result = &result
	}
	return c
}

type execIn struct {
	ID   string `path:"id" maxLength:"128" doc:"The claim's id."`
	Body CommandRequest
}

type execOut struct {
	Status int
	Body   any // CompletedCommand or ClaimCommand
}

// request returns the request for package access.
func (r CommandRequest) request() access.CommandRequest {
	return access.CommandRequest{
		ID: r.ID, Args: r.Command, Environment: r.Environment, User: r.User, Workdir: r.Workdir,
		Terminal: r.Terminal, Input: r.Input, Timeout: r.Timeout.Duration,
	}
}

func (a *API) exec(ctx context.Context, in *execIn) (*execOut, error) {
	if in.Body.Detach {
		return a.execDetached(ctx, in)
	}
	if in.Body.Input || in.Body.Terminal != nil {
		return nil, invalidf("body: input and terminal are for a command that is detached or attached to")
	}
	var out *execOut
	err := a.untilClosing(ctx, func(ctx context.Context) error {
		id, result, err := a.o.Access.Run(ctx, in.ID, in.Body.request(), []byte(in.Body.Stdin))
		out = &execOut{http.StatusOK, CompletedCommand{ID: id, CommandResult: viewResult(result), Stdout: result.Stdout, Stderr: result.Stderr}}
		return err
	})
	if err != nil {
		return nil, a.commandError(ctx, err)
	}
	return out, nil
}

// untilClosing calls do with a context that ends when the server stops.
func (a *API) untilClosing(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var g errgroup.Group
	g.Go(func() error {
		select {
		case <-a.closing:
			cancel(errNotReady)
		case <-ctx.Done():
		}
		return nil
	})
	err := do(ctx)
	cancel(nil)
	return errors.Join(err, g.Wait())
}

// execDetached starts a command that no one waits for.
func (a *API) execDetached(ctx context.Context, in *execIn) (*execOut, error) {
	if in.Body.Stdin != "" {
		return nil, invalidf("body.stdin: input of a detached command is sent by requests of its own")
	}
	c, err := a.o.Access.Start(ctx, in.ID, in.Body.request())
	if err != nil {
		return nil, a.commandError(ctx, err)
	}
	start := c.Start()
	if err := c.Close(); err != nil {
		a.o.Log.DebugContext(ctx, "detaching failed", "request", requestID(ctx), "error", err)
	}
	out := &execOut{Status: http.StatusOK, Body: ClaimCommand{
		ID: c.ID, Command: in.Body.Command, Terminal: start.Terminal, StartedAt: time.Now().UTC(),
	}}
	if start.Created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// commandError returns the problem of a command that did not start: it is the
// request's fault.
func (a *API) commandError(ctx context.Context, err error) error {
	start, ok := errors.AsType[*runtime.StartError](err)
	if !ok {
		return err
	}
	p := newProblem(ctx, CommandNotStarted, start.Detail)
	p.Reason = string(start.Reason)
	return p
}

func (a *API) listCommands(ctx context.Context, in *claimPath) (*struct{ Body ClaimCommands }, error) {
	list, err := a.o.Access.Commands(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := ClaimCommands{Items: make([]ClaimCommand, len(list))}
	for i, s := range list {
		out.Items[i] = viewCommand(s)
	}
	return &struct{ Body ClaimCommands }{out}, nil
}

// CommandPath is the path of a command.
type CommandPath struct {
	ID      string `path:"id" maxLength:"128" doc:"The claim's id."`
	Command string `path:"command" maxLength:"64" doc:"The command's id."`
}

type commandOut struct{ Body ClaimCommand }

func (a *API) getCommand(ctx context.Context, in *CommandPath) (*commandOut, error) {
	list, err := a.o.Access.Commands(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if s.ID == in.Command {
			return &commandOut{viewCommand(s)}, nil
		}
	}
	return nil, runtime.ErrUnknownRun
}

func (a *API) endCommand(ctx context.Context, in *CommandPath) (*commandOut, error) {
	if err := a.o.Access.EndCommand(ctx, in.ID, in.Command); err != nil {
		return nil, err
	}
	out, err := a.getCommand(ctx, in)
	if errors.Is(err, runtime.ErrUnknownRun) { // its reader has everything
		return &commandOut{ClaimCommand{ID: in.Command, Command: []string{}}}, nil
	}
	return out, err
}

type signalCommandIn struct {
	CommandPath
	Body struct {
		Signal string `json:"signal" maxLength:"16" doc:"SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGCONT, SIGSTOP, SIGTSTP or SIGWINCH." example:"SIGINT"`
	}
}

func (a *API) signalCommand(ctx context.Context, in *signalCommandIn) (*struct{}, error) {
	return nil, a.o.Access.Signal(ctx, in.ID, in.Command, in.Body.Signal)
}

type resizeCommandIn struct {
	CommandPath
	Body runtime.TerminalSize
}

func (a *API) resizeCommand(ctx context.Context, in *resizeCommandIn) (*struct{}, error) {
	if err := access.ValidateTerminal(in.Body); err != nil {
		return nil, err
	}
	return nil, a.control(ctx, in.CommandPath, func(c *access.Command) error { return c.Resize(in.Body) })
}

type ackCommandIn struct {
	CommandPath
	Body struct {
		Offset int64 `json:"offset" minimum:"0" doc:"The output before it will not be read again."`
	}
}

func (a *API) ackCommand(ctx context.Context, in *ackCommandIn) (*struct{}, error) {
	return nil, a.control(ctx, in.CommandPath, func(c *access.Command) error { return c.Acknowledge(in.Body.Offset) })
}

// control calls do with an attachment that takes no other one's place.
func (a *API) control(ctx context.Context, at CommandPath, do func(*access.Command) error) error {
	c, err := a.o.Access.Attach(ctx, at.ID, at.Command, runtime.ControlOnly)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// CommandInput is how much input a command has received.
type CommandInput struct {
	Received int64 `json:"received" doc:"In bytes, from its start. Send what follows again, if any."`
	Closed   bool  `json:"closed,omitempty"`
}

type inputIn struct {
	CommandPath
	Offset  version `query:"offset" doc:"Of the first byte of the body. What was received already is ignored. Default: after what was received."`
	Close   bool    `query:"close" doc:"The input ends with the body."`
	RawBody []byte  `contentType:"application/octet-stream"`
}

// inputTimeout bounds how long a request waits for a command that does not read its
// input: less than a proxy waits for an answer.
const inputTimeout = 20 * time.Second

func (a *API) commandInput(ctx context.Context, in *inputIn) (*struct{ Body CommandInput }, error) {
	var out CommandInput
	err := a.control(ctx, in.CommandPath, func(c *access.Command) error {
		ctx, cancel := context.WithTimeoutCause(ctx, inputTimeout, errSlowInput)
		defer cancel()
		end, err := sendInput(ctx, c, in)
		if err == nil {
			out, err = a.awaitInput(ctx, in, end)
		}
		return err
	})
	return &struct{ Body CommandInput }{out}, err
}

// errSlowInput is the cause of a context of a command that does not read its input.
// The answer has how much of it was received.
var errSlowInput = errors.New("the command does not read its input")

// sendInput sends input for as long as a request may wait, and returns the offset of
// its end. What is missing before it was lost: nothing is sent then, and the answer
// has the offset from which it is to be sent again.
func sendInput(ctx context.Context, c *access.Command, in *inputIn) (end int64, err error) {
	start := c.Start()
	offset := start.InputReceived
	if in.Offset.isSet {
		offset = in.Offset.value
	}
	if start.InputClosed || offset > start.InputReceived {
		return 0, nil
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // Input returns
	if len(in.RawBody) > 0 {
		err = c.Input(offset, in.RawBody)
	}
	if err == nil && in.Close {
		err = c.CloseInput()
	}
	if errors.Is(context.Cause(ctx), errSlowInput) {
		err = nil
	}
	return offset + int64(len(in.RawBody)), err
}

// inputChecks are the waits between looks at what a container has received.
var inputChecks = backoff.Policy{Min: 2 * time.Millisecond, Max: 500 * time.Millisecond}

// awaitInput waits until the container has received the input before the offset end,
// and its end if that was sent, or for as long as a request may wait.
func (a *API) awaitInput(ctx context.Context, in *inputIn, end int64) (CommandInput, error) {
	wait := inputChecks.Retries()
	for {
		var got CommandInput
		err := a.control(context.WithoutCancel(ctx), in.CommandPath, func(c *access.Command) error {
			got = CommandInput{Received: c.Start().InputReceived, Closed: c.Start().InputClosed}
			return nil
		})
		if err != nil || got.Closed || got.Received >= end && !in.Close {
			return got, err
		}
		if end == 0 || wait.Sleep(ctx) != nil {
			return got, nil
		}
	}
}
