package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

var secret = []byte("secret")

// engine is an engine with the container "c", whose shim the test plays.
type engine struct {
	dialErr  error                                // of the next dials; nil if the shim can be reached
	answers  map[shim.Op]error                    // of the shim
	requests []string                             // that the shim received
	resumed  func(start func() error) (err error) // the engine's part of a resume
	state    runtime.State
	recorded int // restarts
}

// containers returns the backend on the engine.
func (e *engine) containers(t *testing.T) Containers {
	t.Helper()
	sessions := shim.NewSessions(shim.Options{
		Secret: secret, CheckRunning: func(context.Context, string) error { return nil },
		Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
			if e.dialErr != nil {
				return nil, 0, e.dialErr
			}
			ours, theirs := net.Pipe()
			go e.serve(theirs) // ends with the session
			return ours, shim.Version, nil
		},
	})
	t.Cleanup(func() { require.NoError(t, sessions.Close()) })
	return New(sessions, Options{
		Secret: secret,
		Resume: func(ctx context.Context, id string, change func(context.Context) error) error {
			return e.resumed(func() error { return change(ctx) })
		},
		Restarted: func(context.Context, string) error { e.recorded++; return nil },
		Status: func(context.Context, string) (runtime.Status, error) {
			if e.state == "" {
				return runtime.Status{}, runtime.ErrUnavailable
			}
			return runtime.Status{State: e.state}, nil
		},
	})
}

func (e *engine) serve(stream net.Conn) {
	defer stream.Close()
	channel, err := shim.ProgramHandshake(stream, shim.DeriveKey(secret, "c"), shim.HandshakeReply{BootID: "b", Main: shim.MainRunning})
	if err != nil {
		return
	}
	shim.NewConn(stream, channel, func(in *shim.Incoming) error {
		e.requests = append(e.requests, fmt.Sprint(in.Request.Op, " ", in.Request.Fence))
		var response shim.Response
		if err := e.answers[in.Request.Op]; err != nil {
			response.Error = shim.NewWireError(err)
		}
		go func() { _ = in.Respond(response) }() // ends with the write
		return nil
	}, nil).Run()
}

// The shim restarts a running container. The engine starts one that has exited,
// and then the shim starts the main process, with the fence: it is the shim that
// knows whether another flow is responsible.
func TestRestart(t *testing.T) {
	broken := errors.New("the disk is full")
	for name, tt := range map[string]struct {
		dialErr  error
		answers  map[shim.Op]error
		resumed  error
		requests []string
		want     error
	}{
		"running":                   {requests: []string{"restart 7"}},
		"refused":                   {answers: map[shim.Op]error{shim.OpRestart: runtime.ErrStaleFence}, requests: []string{"restart 7"}, want: runtime.ErrStaleFence},
		"tainted":                   {dialErr: runtime.ErrTainted, want: runtime.ErrTainted},
		"unavailable":               {dialErr: runtime.ErrUnavailable, want: runtime.ErrUnavailable},
		"gone":                      {dialErr: runtime.ErrNotFound, want: runtime.ErrNotFound},
		"exited":                    {dialErr: runtime.ErrNotRunning, requests: []string{"begin 7"}},
		"exited during the call":    {answers: map[shim.Op]error{shim.OpRestart: runtime.ErrContainerExited}, requests: []string{"restart 7", "begin 7"}},
		"waits for its start":       {answers: map[shim.Op]error{shim.OpRestart: runtime.ErrNotRunning}, requests: []string{"restart 7", "begin 7"}},
		"exited, refused":           {dialErr: runtime.ErrNotRunning, answers: map[shim.Op]error{shim.OpStartMain: runtime.ErrStaleFence}, requests: []string{"begin 7"}, want: runtime.ErrStaleFence},
		"exited, cannot be started": {dialErr: runtime.ErrNotRunning, resumed: broken, want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			e := &engine{dialErr: tt.dialErr, answers: tt.answers}
			e.resumed = func(start func() error) error {
				if tt.resumed != nil {
					return tt.resumed
				}
				e.dialErr = nil
				return start()
			}
			c := e.containers(t)
			err := c.Restart(t.Context(), "c", 7)
			require.ErrorIs(t, err, tt.want)
			if err != nil {
				require.ErrorContains(t, err, "restart the container c")
			}
			require.Equal(t, tt.requests, e.requests)
			require.Equal(t, err == nil, e.recorded == 1, "a restart is recorded")
		})
	}
}

// A stop of a container that has exited starts process 1 and not the main process,
// and records no restart. A container that was never started is not started: its
// first process 1 would start the main process.
func TestStop(t *testing.T) {
	for name, tt := range map[string]struct {
		dialErr  error
		answer   error
		state    runtime.State
		requests []string
		want     error
	}{
		"running":                {requests: []string{"stop 7"}},
		"refused":                {answer: runtime.ErrStaleFence, requests: []string{"stop 7"}, want: runtime.ErrStaleFence},
		"exited":                 {dialErr: runtime.ErrNotRunning, state: runtime.Exited, requests: []string{"stop 7"}},
		"exited, refused":        {dialErr: runtime.ErrNotRunning, state: runtime.Exited, answer: runtime.ErrStaleFence, requests: []string{"stop 7"}, want: runtime.ErrStaleFence},
		"exited during the call": {answer: runtime.ErrContainerExited, state: runtime.Exited, requests: []string{"stop 7", "stop 7"}, want: runtime.ErrContainerExited},
		"never started":          {dialErr: runtime.ErrNotRunning, state: runtime.Created, want: runtime.ErrNotRunning},
		"unknown":                {dialErr: runtime.ErrNotRunning, want: runtime.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			e := &engine{dialErr: tt.dialErr, state: tt.state, answers: map[shim.Op]error{shim.OpStop: tt.answer}}
			e.resumed = func(change func() error) error {
				e.dialErr = nil
				return change()
			}
			require.ErrorIs(t, e.containers(t).Stop(t.Context(), "c", 7), tt.want)
			require.Equal(t, tt.requests, e.requests)
			require.Zero(t, e.recorded)
		})
	}
}

// Every error describes what was to be done, and keeps the error of the contract.
func TestErrorsNameTheContainer(t *testing.T) {
	e := &engine{dialErr: runtime.ErrNotFound, resumed: func(change func() error) error { return change() }}
	c, ctx := e.containers(t), t.Context()
	_, exec := c.Exec(ctx, "c", runtime.Command{Args: []string{"true"}})
	_, result := c.WaitResult(ctx, "c", runtime.Command{RunID: "k"})
	_, out := c.CopyOut(ctx, "c", "/data")
	_, changed := c.LastModified(ctx, "c", nil)
	for name, err := range map[string]error{
		"Exec": exec, "WaitResult": result, "CopyOut": out, "LastModified": changed,
		"CopyIn": c.CopyIn(ctx, "c", "/data", 0, nil), "Start": c.Start(ctx, "c", 1), "Stop": c.Stop(ctx, "c", 1), "Wipe": c.Wipe(ctx, "c", 1),
		"RecordBaseline": c.RecordBaseline(ctx, "c", 1),
	} {
		require.ErrorIs(t, err, runtime.ErrNotFound, name)
		require.ErrorContains(t, err, "container c", name)
	}
}
