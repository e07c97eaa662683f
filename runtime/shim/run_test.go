package shim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// featureCommands are commands that need a feature of the program.
var featureCommands = map[string]runtime.Command{
	FeatureScripts: {Args: []string{"sh"}, Script: "exit 0"},
	FeatureLimits:  {Args: []string{"sh"}, Limits: runtime.ProcessLimits{Output: 1}},
}

// A program without a feature never receives a command that needs it: it would
// ignore the field. The reason includes what to do.
func TestCommandNeedsFeature(t *testing.T) {
	t.Parallel()
	for feature, cmd := range featureCommands {
		for _, isOld := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				var received []Request
				s := scriptedSession(t, func(p *peer) {
					p.handshake("a")
					for r, ok := p.nextRequest(); ok; r, ok = p.nextRequest() {
						received = append(received, r)
						p.send(KindResponse, Response{ID: r.ID, Result: &runtime.Result{ExitCode: 3}})
					}
				})
				require.NoError(t, s.Open(t.Context()))
				if isOld {
					s.conn.features = []string{FeatureFiles}
				}
				result, err := s.Exec(t.Context(), cmd)
				synctest.Wait()
				require.NoError(t, s.Close())
				if !isOld {
					require.NoError(t, err)
					require.Len(t, received, 1)
					return
				}
				require.ErrorContains(t, err, feature)
				require.ErrorContains(t, err, "replace the container")
				require.ErrorContains(t, err, string(runtime.StartUnsupported))
				require.Zero(t, result)
				require.Empty(t, received)
			})
		}
	}
}

// What no program accepts is not sent.
func TestInvalidCommandIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scriptedSession(t)
		for _, cmd := range []runtime.Command{
			{Args: []string{"sh"}, Script: strings.Repeat("x", runtime.MaxScript+1)},
			{Args: []string{"sh"}, Script: "a\x00"},
			{Args: []string{"sh"}, Limits: runtime.ProcessLimits{CPUTime: -1}},
			{Args: []string{"sh"}, Limits: runtime.ProcessLimits{Memory: -1}},
			{Args: []string{"sh"}, Limits: runtime.ProcessLimits{FileSize: -1}},
			{Args: []string{"sh"}, Limits: runtime.ProcessLimits{Output: -1}},
		} {
			_, err := s.Exec(t.Context(), cmd)
			require.ErrorContains(t, err, string(runtime.StartBadInput))
		}
	})
}

// Without a grace period in the command the default is sent, and no grace period
// is sent as such.
func TestGraceIsSent(t *testing.T) {
	t.Parallel()
	for want, cmd := range map[time.Duration]runtime.Command{
		runtime.DefaultGrace: {},
		0:                    {Grace: new(time.Duration(0))},
		time.Minute:          {Grace: new(time.Minute)},
	} {
		require.Equal(t, want, withDefaults(cmd).Grace)
	}
	require.Zero(t, withDefaults(runtime.Command{Grace: new(-time.Second)}).Grace)
}
