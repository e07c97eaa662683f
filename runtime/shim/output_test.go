package shim

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// The output of a running command is asked of a program that has the feature. A
// program that does not answer in time costs the caller no more than that, and its
// container is not tainted.
func TestSessionOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newCommandProgram(t, func(in *Incoming, _ *Stream) {
			switch in.Request.RunID {
			case "known":
				_ = in.Respond(Response{Result: &runtime.Result{Stdout: runtime.Output{Head: "a"}, Stderr: runtime.Output{Head: "b"}}})
			case "unknown":
				_ = in.Respond(Response{Error: &WireError{Code: CodeUnknownRun}})
			case "empty":
				_ = in.Respond(Response{})
			}
		})
		stdout, stderr, err := p.Output(t.Context(), "known")
		require.NoError(t, err)
		require.Equal(t, "a", stdout.Head)
		require.Equal(t, "b", stderr.Head)
		_, _, err = p.Output(t.Context(), "unknown")
		require.ErrorIs(t, err, runtime.ErrUnknownRun)
		_, _, err = p.Output(t.Context(), "empty")
		require.Error(t, err)

		begin := time.Now()
		_, _, err = p.Output(t.Context(), "silent")
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		require.NotErrorIs(t, err, runtime.ErrTainted)
		require.Equal(t, outputTimeout, time.Since(begin))
		require.NoError(t, p.Close())
		synctest.Wait()
		require.Len(t, p.requests, 4)
	})
}

// A program without the feature receives no request: an older server may have created
// its container.
func TestOutputNeedsFeature(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newCommandProgram(t, func(in *Incoming, _ *Stream) { _ = in.Respond(Response{}) })
		require.NoError(t, p.Open(t.Context()))
		p.Session.conn.features = slices.DeleteFunc(slices.Clone(features), func(f string) bool { return f == FeatureOutput })
		_, _, err := p.Output(t.Context(), "known")
		require.ErrorIs(t, err, runtime.ErrUnsupported)
		require.NoError(t, p.Close())
		synctest.Wait()
		require.Empty(t, p.requests)
	})
}
