package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// CommandRequest is a command to run in the container of a claim.
type CommandRequest struct {
	Command     []string          `json:"command"`
	Timeout     time.Duration     `json:"-"` // 0: 5m of Exec, none of StartCommand
	User        string            `json:"user,omitempty"`
	Workdir     string            `json:"workdir,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	Stdin       string            `json:"stdin,omitempty"`    // of Exec
	Input       bool              `json:"input,omitempty"`    // of StartCommand: input will be sent
	Terminal    *TerminalSize     `json:"terminal,omitempty"` // of StartCommand
	// ID names it, so that a repeated request starts no second one; StartCommand
	// chooses one if it is empty.
	ID string `json:"id,omitempty"`
}

// execRequest is the body of a request.
type execRequest struct {
	CommandRequest
	Timeout string `json:"timeout,omitempty"`
	Detach  bool   `json:"detach,omitempty"`
}

func (r CommandRequest) body(detach bool) execRequest {
	out := execRequest{CommandRequest: r, Detach: detach}
	if r.Timeout != 0 {
		out.Timeout = r.Timeout.String()
	}
	return out
}

// CommandResult is how a command ended.
type CommandResult struct {
	ExitCode  int     `json:"exit_code"` // its own, or 128 and the signal's number
	Signal    string  `json:"signal,omitempty"`
	TimedOut  bool    `json:"timed_out,omitempty"`
	Killed    bool    `json:"killed,omitempty"`           // SIGKILL was needed
	Leaked    int     `json:"leaked_processes,omitempty"` // that it left behind; they were killed
	OOMKilled bool    `json:"oom_killed,omitempty"`
	Duration  float64 `json:"duration_ms"`
}

// CompletedCommand is a command that was waited for.
type CompletedCommand struct {
	ID string `json:"id"`
	CommandResult
	Stdout Output `json:"stdout,omitzero"` // its beginning and its end
	Stderr Output `json:"stderr,omitzero"`
}

// CommandStatus describes a command of a claim.
type CommandStatus struct {
	ID        string         `json:"id"`
	Command   []string       `json:"command"`
	Terminal  bool           `json:"terminal,omitempty"`
	StartedAt time.Time      `json:"started_at"`
	Attached  bool           `json:"attached,omitempty"` // a client reads its output
	Output    int64          `json:"output_bytes"`
	Held      bool           `json:"held,omitempty"` // it waits, because its output is not acknowledged
	EndedAt   *time.Time     `json:"ended_at,omitempty"`
	Result    *CommandResult `json:"result,omitempty"` // of one that has ended
}

// execPath is the path of the commands of a claim.
func execPath(claim string) string { return path("/v1/claims", claim) + "/exec" }

func commandPath(claim, id string) string { return path(execPath(claim), id) }

// Exec runs a command to its end. It is made once only: a connection that is lost
// ends the command. StartCommand is for those that take long, or write much.
func (c *Client) Exec(ctx context.Context, claim string, r CommandRequest) (CompletedCommand, error) {
	body, err := encode(r.body(false))
	if err != nil {
		return CompletedCommand{}, err
	}
	out, _, err := doJSON[CompletedCommand](ctx, c, call{
		method: http.MethodPost, path: execPath(claim), body: body, noRetry: true,
		header: http.Header{"Content-Type": {"application/json"}},
	})
	return out, err
}

// Commands lists the commands of a claim: those that run, and those that ended a
// short time ago.
func (c *Client) Commands(ctx context.Context, claim string) ([]CommandStatus, error) {
	out, err := get[page[CommandStatus]](ctx, c, execPath(claim))
	return out.Items, err
}

// GetCommand is one command.
func (c *Client) GetCommand(ctx context.Context, claim, id string) (CommandStatus, error) {
	return get[CommandStatus](ctx, c, commandPath(claim, id))
}

// EndCommand ends a command: SIGTERM, then SIGKILL. It returns when no process of it
// is left.
func (c *Client) EndCommand(ctx context.Context, claim, id string) (CommandStatus, error) {
	out, _, err := doJSON[CommandStatus](ctx, c, call{method: http.MethodDelete, path: commandPath(claim, id)})
	return out, err
}

// SignalCommand sends a signal such as SIGINT to a command.
func (c *Client) SignalCommand(ctx context.Context, claim, id, signal string) error {
	_, _, err := post[struct{}](ctx, c, commandPath(claim, id)+"/signal", map[string]string{"signal": signal})
	return err
}

// resizeCommand changes the size of a command's terminal.
func (c *Client) resizeCommand(ctx context.Context, claim, id string, size TerminalSize) error {
	_, _, err := post[struct{}](ctx, c, commandPath(claim, id)+"/resize", size)
	return err
}

// acknowledge reports that output will not be read again.
func (c *Client) acknowledge(ctx context.Context, claim, id string, offset int64) error {
	_, _, err := post[struct{}](ctx, c, commandPath(claim, id)+"/ack", map[string]int64{"offset": offset})
	return err
}

// CommandInput is how much input a command has received.
type CommandInput struct {
	Received int64 `json:"received"`
	Closed   bool  `json:"closed,omitempty"`
}

// sendInput sends input that begins at an offset, and perhaps its end. It can be
// repeated.
func (c *Client) sendInput(ctx context.Context, claim, id string, offset int64, p []byte, end bool) (CommandInput, error) {
	query := url.Values{"offset": {strconv.FormatInt(offset, 10)}}
	if end {
		query.Set("close", "true")
	}
	out, _, err := doJSON[CommandInput](ctx, c, call{
		method: http.MethodPost, path: commandPath(claim, id) + "/input", query: query, body: p,
		header: http.Header{"Content-Type": {"application/octet-stream"}},
	})
	return out, err
}
