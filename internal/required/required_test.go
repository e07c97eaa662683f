package required

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamed(t *testing.T) {
	t.Setenv("REQUIRE", "docker,s3")
	require.True(t, Named("docker"))
	require.True(t, Named("s3"))
	require.False(t, Named("dock"))
	require.False(t, Named("postgres"))
}

// ended is a test that notes how it ended.
type ended struct {
	testing.TB
	how string
}

func (e *ended) Helper()               {}
func (e *ended) Skip(...any)           { e.how = "skipped" }
func (e *ended) Skipf(string, ...any)  { e.how += "skipped" }
func (e *ended) Fatalf(string, ...any) { e.how += "failed"; panic(e) }

// What REQUIRE names fails, never skips.
func TestMissing(t *testing.T) {
	t.Setenv("REQUIRE", "docker")
	e := &ended{}
	require.Panics(t, func() { Missing(e, "docker", "no engine answers") })
	require.Equal(t, "failed", e.how)
	e = &ended{}
	Missing(e, "postgres", "no server answers")
	require.Equal(t, "skipped", e.how)
}
