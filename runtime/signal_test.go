package runtime_test

import (
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]int{
		"SIGTERM": 15, "TERM": 15, "sigusr1": 10, "9": 9, "SIGRTMIN": 34, "SIGRTMIN+3": 37, "rtmax-1": 63, "64": 64,
	} {
		got, err := runtime.ParseSignal(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "0", "65", "-1", "SIG", "SIGNONE", "SIGRTMIN+31", "RTMAX-31", "RTMIN+-1", "RTMIN+x", "TERM "} {
		_, err := runtime.ParseSignal(text)
		require.Error(t, err, text)
	}
}

func TestStopSignal(t *testing.T) {
	require.Equal(t, 15, runtime.StopSignal())
	require.Equal(t, 3, runtime.StopSignal("", "SIGQUIT"), "the workload has none: the image's applies")
	require.Equal(t, 10, runtime.StopSignal("SIGUSR1", "SIGQUIT"))
	require.Equal(t, 15, runtime.StopSignal("", "NONSENSE"), "an image may contain any text")
}
