package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/builtin"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/workload"
)

// use is what a tenant is about to do. All of it is untrusted.
type use struct {
	judged   builtin.Use // as it is
	envelope envelope    // without secrets
	tool     string      // the program of a command
}

// envelope describes a use to a receiver.
type envelope struct {
	Gate      hooks.Gate   `json:"gate"`
	Timestamp time.Time    `json:"timestamp"`
	RunID     string       `json:"run_id"`
	Hook      string       `json:"hook"`
	Workload  string       `json:"workload"`
	Container string       `json:"container"`
	Claim     string       `json:"claim"`
	Tenant    string       `json:"tenant"`
	Command   *command     `json:"command,omitempty"`
	File      *file        `json:"file,omitempty"`
	Request   *portRequest `json:"request,omitempty"`
}

type command struct {
	ID          string            `json:"id"`
	Args        []string          `json:"args"`
	Environment map[string]string `json:"environment"`
	User        string            `json:"user"`
	Workdir     string            `json:"workdir"`
	Terminal    bool              `json:"terminal"`
}

type file struct {
	Action access.FileAction `json:"action"`
	Path   string            `json:"path"`
}

type portRequest struct {
	Port   int    `json:"port"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Host   string `json:"host"`
}

func (s *Service) redact(text string) string {
	if s.o.Redact == nil {
		return text
	}
	return s.o.Redact(text)
}

func (s *Service) ofCommand(c access.CommandUse) use {
	described := &command{
		ID: c.ID, User: s.redact(c.User), Workdir: s.redact(c.Workdir), Terminal: c.Terminal,
		Args: make([]string, len(c.Args)), Environment: map[string]string{},
	}
	for i, text := range c.Args {
		described.Args[i] = s.redact(text)
	}
	for name, value := range c.Environment {
		described.Environment[s.redact(name)] = s.redact(value)
	}
	u := use{
		judged:   builtin.Use{Gate: hooks.ExecBefore, Args: c.Args, Environment: c.Environment, Workdir: c.Workdir},
		envelope: envelope{Gate: hooks.ExecBefore, Command: described},
	}
	if len(c.Args) > 0 {
		u.tool = path.Base(described.Args[0])
	}
	return u
}

func (s *Service) ofFile(f access.FileUse) use {
	return use{
		judged:   builtin.Use{Gate: hooks.FileBefore, Path: f.Path},
		envelope: envelope{Gate: hooks.FileBefore, File: &file{Action: f.Action, Path: s.redact(f.Path)}},
	}
}

func (s *Service) ofRequest(r access.PortUse) use {
	return use{
		judged: builtin.Use{Gate: hooks.RequestBefore},
		envelope: envelope{Gate: hooks.RequestBefore, Request: &portRequest{
			Port: r.Port, Method: s.redact(r.Method), Path: s.redact(r.Path), Host: s.redact(r.Host),
		}},
	}
}

// attempt returns the attempt of a hook. The use is described as an event that a tenant
// has published: its variables are untrusted.
func (s *Service) attempt(ctx context.Context, h hooks.Hook, run hooks.Run, w *workload.Workload, u use) (runner.Attempt, error) {
	e := u.envelope
	e.Timestamp, e.RunID, e.Hook = run.StartedAt.UTC(), run.ID, run.Hook
	e.Workload, e.Container, e.Claim, e.Tenant = run.Workload, run.Container, run.Claim, run.Tenant
	described, err := json.Marshal(e)
	if err != nil {
		return runner.Attempt{}, fmt.Errorf("describe the use: %w", err)
	}
	data, err := json.Marshal(struct {
		ToolName string       `json:"tool_name,omitempty"`
		Command  *command     `json:"command,omitempty"`
		File     *file        `json:"file,omitempty"`
		Request  *portRequest `json:"request,omitempty"`
	}{u.tool, e.Command, e.File, e.Request})
	if err != nil {
		return runner.Attempt{}, fmt.Errorf("describe the use: %w", err)
	}
	a, err := s.o.Attempt(ctx, h, run, w, runner.Envelope{
		Type: string(e.Gate), Timestamp: e.Timestamp, Workload: e.Workload, Container: e.Container, Claim: e.Claim, Tenant: e.Tenant,
		Data: data, Untrusted: true,
	})
	a.Envelope = described
	return a, err
}

// withoutBody are the methods of requests that have none unless the file gives one.
const withoutBody = " GET HEAD DELETE OPTIONS "

// asking returns the request that asks for a decision. Without a body it has the
// envelope. The start of its response is read.
func asking(r hooks.Request) hooks.Request {
	r.KeepResponse, r.Expect, r.Capture, r.ResponseAs = true, nil, nil, ""
	if r.Body == nil && !strings.Contains(withoutBody, " "+r.Method+" ") {
		r.Webhook = true
	}
	return r
}
