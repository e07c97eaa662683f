package shim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A program that does not do what the end of a claim needs, but answers other
// requests, is tainted after some time: it makes no release impossible.
func TestHostileProgramDelaysNoRelease(t *testing.T) {
	silent := func(*Incoming, *Stream) {}
	dropping := func(in *Incoming, _ *Stream) { in.conn.fail(errConnLost) }
	for name, play := range map[string]func(in *Incoming, s *Stream){
		"silent": silent, "busy": respondsError(CodeBusy), "dropping": dropping,
		"failing": respondsError(CodeFailed), "answering an error of another request": respondsError(CodeTooManyConns),
		"answering what does not exist": respondsError("x"),
		"progress":                      func(in *Incoming, _ *Stream) { _ = in.SendProgress(ProgressStarted) },
	} {
		for _, op := range []Op{OpClosePorts, OpEndCommands} {
			t.Run(string(op)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newCommandProgram(t, func(in *Incoming, s *Stream) {
						if in.Request.Op == op {
							play(in, s)
							return
						}
						_ = in.Respond(Response{})
					})
					ctx, cancel := context.WithTimeout(t.Context(), 10*callTimeout)
					defer cancel()
					calls := map[Op]func() error{
						OpClosePorts:  func() error { return p.ClosePorts(ctx, 7) },
						OpEndCommands: func() error { return p.EndCommands(ctx, 7, runtime.DefaultGrace) },
					}
					require.ErrorIs(t, calls[op](), runtime.ErrTainted)
					require.NoError(t, ctx.Err(), "it takes too long")
				})
			})
		}
	}
}

// What a tenant may open as often as it likes leaves room on the connection for what
// the server itself asks of the container.
func TestTenantsLeaveRoomOnTheConnection(t *testing.T) {
	for _, flood := range []Request{
		{Op: OpCommand, Streams: commandStreams},
		{Op: OpDial, Streams: 1},
		{Op: OpEndCommand},
		{Op: OpCommands},
	} {
		t.Run(string(flood.Op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newCommandProgram(t, func(*Incoming, *Stream) {})
				require.NoError(t, p.Open(t.Context()))
				c, err := p.connect(t.Context())
				require.NoError(t, err)
				for range Program.maxRequests + 1 {
					if _, err = c.Call(flood); err != nil {
						break
					}
				}
				require.ErrorIs(t, err, errTooManyOpen)
				for _, r := range slices.Repeat([]Request{{Op: OpRun, Run: &Run{}}, {Op: OpTar, Streams: 1}, {Op: OpEndCommands}}, 32) {
					_, err := c.Call(r)
					require.NoError(t, err, r.Op)
				}
			})
		})
	}
}

// What an intact program answers at the end of a claim is no reason to destroy its
// container.
func TestAnswersAtTheEndOfAClaim(t *testing.T) {
	for code, want := range map[Code]error{
		CodeStale: runtime.ErrStaleFence, CodeNotRunning: runtime.ErrNotRunning, CodeContainerExited: runtime.ErrContainerExited,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newCommandProgram(t, respondsError(code))
			for _, err := range []error{p.ClosePorts(t.Context(), 7), p.EndCommands(t.Context(), 7, 0)} {
				require.ErrorIs(t, err, want)
				require.NotErrorIs(t, err, runtime.ErrTainted)
			}
			require.NoError(t, p.Close())
		})
	}
}

// A response that is too large is answered with an error: the other end does not wait
// for one that never comes.
func TestResponseThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newCommandProgram(t, func(in *Incoming, _ *Stream) {
			_ = in.Respond(Response{Commands: []runtime.CommandStatus{{ID: "a", Args: []string{strings.Repeat("x", MaxFrame)}}}})
		})
		begun := time.Now()
		_, err := p.Commands(t.Context(), 7)
		require.ErrorContains(t, err, errTooLarge.Error())
		require.Less(t, time.Since(begun), time.Second)
		require.NoError(t, p.Close())
	})
}
