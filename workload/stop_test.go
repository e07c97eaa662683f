package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
)

// A grace period in the file limits the pre_destroy hooks, and no others. If it
// is omitted, it is 10 seconds and limits no hooks.
func TestStopGracePeriod(t *testing.T) {
	for text, want := range map[string]struct{ grace, preDestroy, preRelease time.Duration }{
		"":                          {10 * time.Second, time.Minute, time.Minute},
		"stop_grace_period: 5s\n":   {5 * time.Second, 5 * time.Second, time.Minute},
		"stop_grace_period: 10s\n":  {10 * time.Second, 10 * time.Second, time.Minute},
		"stop_grace_period: 10m\n":  {10 * time.Minute, time.Minute, time.Minute},
		"stop_grace_period: 0s\n":   {0, time.Minute, time.Minute},
		"stop_grace_period: 1500\n": {1500 * time.Millisecond, 1500 * time.Millisecond, time.Minute},
	} {
		w, err := Parse([]byte("id: a\nimage: b\n"+text+
			"hooks: {pre_destroy: [{command: [x], timeout: 1m}], pre_release: [{command: [x], timeout: 1m}]}\n"), "")
		require.NoError(t, err, text)
		require.Equal(t, want.grace, w.Spec("c").StopGracePeriod, text)
		require.Equal(t, want.preDestroy, w.Hooks[hooks.PreDestroy][0].Timeout, text)
		require.Equal(t, want.preRelease, w.Hooks[hooks.PreRelease][0].Timeout, text)
	}
}

func TestStopSignal(t *testing.T) {
	w, err := Parse([]byte("id: a\nimage: b\nstop_signal: SIGRTMIN+3\n"), "")
	require.NoError(t, err)
	require.Equal(t, "SIGRTMIN+3", w.Spec("c").StopSignal)
	for text, want := range map[string]string{
		"stop_signal: SIGNONE\n":      "w.yaml:3:14: stop_signal: is \"SIGNONE\", which is not a signal",
		"stop_grace_period: 11m\n":    "w.yaml:3:20: stop_grace_period: is 11m0s, more than 10m",
		"stop_grace_period: \"30\"\n": "w.yaml:3:20: stop_grace_period: is not a valid duration",
	} {
		_, err := Parse([]byte("id: a\nimage: b\n"+text), "w.yaml")
		require.ErrorContains(t, err, want)
	}
}
