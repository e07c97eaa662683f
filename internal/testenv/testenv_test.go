package testenv

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsRequired(t *testing.T) {
	t.Setenv("REQUIRE", "docker,s3")
	require.True(t, IsRequired("docker"))
	require.True(t, IsRequired("s3"))
	require.False(t, IsRequired("dock"))
	require.False(t, IsRequired("postgres"))
}

// recordingTB is a testing.TB that records its outcome.
type recordingTB struct {
	testing.TB
	outcome, reason string
}

func (e *recordingTB) Helper()          {}
func (e *recordingTB) Skip(args ...any) { e.Skipf("%s", fmt.Sprint(args...)) }
func (e *recordingTB) Skipf(f string, a ...any) {
	e.outcome += "skipped"
	e.reason += fmt.Sprintf(f, a...)
}
func (e *recordingTB) Fatalf(string, ...any) { e.outcome += "failed"; panic(e) }

// Skip fails a test that REQUIRE names.
func TestSkipFailsWhenRequired(t *testing.T) {
	t.Setenv("REQUIRE", "docker")
	tb := &recordingTB{}
	require.Panics(t, func() { Skip(tb, "docker", "no engine available") })
	require.Equal(t, "failed", tb.outcome)
	tb = &recordingTB{}
	Skip(tb, "postgres", "no server available")
	require.Equal(t, "skipped", tb.outcome)
	require.Equal(t, "no server available", tb.reason)
	t.Setenv("DEFER", "postgres,s3")
	tb = &recordingTB{}
	Skip(tb, "postgres", "no server at %s", "x")
	require.True(t, strings.HasPrefix(tb.reason, FullSuite), tb.reason)
	require.Contains(t, tb.reason, "no server at x")
	require.Panics(t, func() { Skip(tb, "docker", "no engine available") })
}

// Tests run the programs that the Makefile builds.
func TestTagsAreThoseOfTheMakefile(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	require.Contains(t, string(text), "\nTAGS := "+Tags+"\n")
}
