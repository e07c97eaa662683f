package benchmarks

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// BenchmarkWait measures the time from a signal through the API to the first byte
// that the waiting program in the container prints, without hooks of the wait and
// with one at wait_signal. It compares that with the cost of a hook in the same run. The
// byte reaches us through the engine's exec, whose copying is in the figure.
func BenchmarkWait(b *testing.B) {
	_, image := connectDocker(b)
	c := startBuild(b, buildServer(b))
	for _, hooks := range []int{1, manyHooks} {
		applyPoint(b, c, image, pointWorkload(hooks), "{ min_idle: 0, max_size: 1, reuse: same_tenant }", hooks)
	}
	b.Run("hook", func(b *testing.B) { benchPoint(b, c) })
	for name, hooks := range map[string]string{"signal": "", "signal-hook": "hooks: { wait_signal: [{ command: [/box, echo, hi] }] }\n"} {
		source := "id: " + name + "\nimage: " + image + "\ncommand: [/box, idle]\npool: { min_idle: 0, max_size: 1, reuse: never }\n" + hooks
		_, err := c.Apply(b.Context(), name, []byte(source))
		require.NoError(b, err)
		b.Cleanup(func() {
			_, err := c.Drain(context.Background(), name)
			require.NoError(b, err)
			awaitIdle(b, c, name, 0)
		})
		b.Run(name, func(b *testing.B) { benchWait(b, c, name) })
	}
}

// benchWait signals a program that waits in a container.
func benchWait(b *testing.B, c *client.Client, id string) {
	b.Helper()
	got, _, err := c.Claim(b.Context(), id, "ada", time.Minute)
	require.NoError(b, err)
	defer releaseClaim(b, c, got.ID)
	var resumed []time.Duration
	for b.Loop() {
		output := startWaiting(b, "hostler-"+got.Container)
		for len(waitsOf(b, c, got.ID)) == 0 {
			<-time.After(10 * time.Millisecond)
		}
		start := time.Now()
		_, err := c.Signal(b.Context(), got.ID, "n", json.RawMessage(`{"ok":true}`))
		require.NoError(b, err)
		require.NoError(b, <-output)
		resumed = append(resumed, time.Since(start))
	}
	b.ReportMetric(ms(quantile(resumed, .5)), "resumed-p50-ms")
	b.ReportMetric(ms(quantile(resumed, .95)), "resumed-p95-ms")
}

// waitsOf returns the waits of a claim that wait for a signal now.
func waitsOf(b *testing.B, c *client.Client, claim string) []client.Wait {
	b.Helper()
	all, err := c.Waits(b.Context(), client.WaitFilter{Claim: claim, States: []client.WaitState{client.WaitWaiting}})
	require.NoError(b, err)
	return all
}

// startWaiting has a container wait for a signal. The channel gets a value with the
// first byte that the program prints.
func startWaiting(b *testing.B, container string) <-chan error {
	b.Helper()
	args := []string{"/.hostler/bin/hostler", "wait", "--name", "n", "--type", "review", "--timeout", "1m"}
	var created struct{ ID string }
	require.NoError(b, callEngine(b.Context(), "/containers/"+container+"/exec", map[string]any{"AttachStdout": true, "AttachStderr": true, "Cmd": args}, &created))
	output := make(chan error, 1)
	go func() { // ends with the program
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://engine/exec/"+created.ID+"/start", bytes.NewReader([]byte(`{"Detach":false}`)))
		if err != nil {
			output <- err
			return
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := engineClient.Do(r)
		if err != nil {
			output <- err
			return
		}
		defer response.Body.Close()
		_, err = response.Body.Read(make([]byte, 1))
		output <- err
	}()
	return output
}
