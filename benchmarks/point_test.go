package benchmarks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// manyHooks is the length of the list that is compared with a list of one hook:
// the difference is the time of the other twenty.
const manyHooks = 21

// BenchmarkPoint measures a hook in a list, end to end through the API of a real
// server, compared with the engine's exec of the same command in the same
// container: with all pools full, and while another pool is refilled all the
// time.
func BenchmarkPoint(b *testing.B) {
	_, image := connectDocker(b)
	c := startBuild(b, buildServer(b))
	for _, hooks := range []int{1, manyHooks} {
		applyPoint(b, c, image, pointWorkload(hooks), "{ min_idle: 0, max_size: 1, reuse: same_tenant }", hooks)
	}
	b.Run("full", func(b *testing.B) { benchPoint(b, c) })
	applyPoint(b, c, image, "refill", "{ min_idle: 0, max_size: 500, reuse: never }", 0)
	b.Run("refill", func(b *testing.B) {
		minIdle := 500
		_, err := c.Scale(b.Context(), "refill", client.Scale{MinIdle: &minIdle})
		require.NoError(b, err)
		benchPoint(b, c)
	})
}

// pointWorkload is the workload with so many hooks.
func pointWorkload(hooks int) string { return fmt.Sprintf("hooks-%d", hooks) }

// applyPoint applies a workload, which is drained when the benchmark ends.
func applyPoint(b *testing.B, c *client.Client, image, id, pool string, hooks int) {
	b.Helper()
	source := fmt.Sprintf("id: %s\nimage: %s\ncommand: [/box, idle]\npool: %s\n", id, image, pool)
	if hooks > 0 {
		source += "hooks:\n  post_claim:\n" + strings.Repeat("    - command: [/box, echo, hi]\n", hooks)
	}
	_, err := c.Apply(b.Context(), id, []byte(source))
	require.NoError(b, err)
	b.Cleanup(func() {
		_, err := c.Drain(context.Background(), id)
		require.NoError(b, err)
		awaitIdle(b, c, id, 0)
	})
}

// benchPoint claims and releases one container of each workload in turn, always
// for the same tenant, which keeps its containers.
func benchPoint(b *testing.B, c *client.Client) {
	b.Helper()
	claims := map[int][]time.Duration{}
	var execs []time.Duration
	for b.Loop() {
		var container string
		for _, hooks := range []int{1, manyHooks} {
			start := time.Now()
			got, _, err := c.Claim(b.Context(), pointWorkload(hooks), "ada", time.Minute)
			require.NoError(b, err)
			if got.Source == client.SourceAffinity {
				claims[hooks] = append(claims[hooks], time.Since(start))
			}
			require.Len(b, got.Hooks, hooks)
			container = got.Container
			if hooks == manyHooks {
				start := time.Now()
				require.NoError(b, engineExec(b.Context(), "hostler-"+container, "/box", "echo", "hi"))
				execs = append(execs, time.Since(start))
			}
			releaseClaim(b, c, got.ID)
		}
	}
	if len(claims[1]) == 0 {
		return // the first round of all creates the containers
	}
	hook := (quantile(claims[manyHooks], .5) - quantile(claims[1], .5)) / (manyHooks - 1)
	b.ReportMetric(ms(hook), "hook-p50-ms")
	b.ReportMetric(ms(quantile(execs, .5)), "exec-p50-ms")
	b.ReportMetric(float64(quantile(execs, .5))/float64(hook), "exec/hook")
	b.ReportMetric(ms(quantile(claims[1], .5)), "claim-p50-ms")
	b.ReportMetric(ms(quantile(claims[1], .95)), "claim-p95-ms")
}

// buildServer builds the programs of this tree.
func buildServer(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	out, err := testenv.GoBuild("-o", dir+"/", "../cmd/hostler", "../cmd/hostler-shim").CombinedOutput()
	require.NoError(b, err, "%s", out)
	return filepath.Join(dir, "hostler")
}

// engineClient speaks plain HTTP to the Docker engine.
var engineClient = &http.Client{Transport: &http.Transport{
	DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		network, address, ok := strings.Cut(os.Getenv("DOCKER_HOST"), "://")
		if !ok {
			network, address = "unix", "/var/run/docker.sock"
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	},
}}

// engineExec runs a command in a container by the engine's exec: it is created,
// started, its output read to the end, and its exit code asked for.
func engineExec(ctx context.Context, container string, args ...string) error {
	var created struct{ ID string }
	err := callEngine(ctx, "/containers/"+container+"/exec", map[string]any{"AttachStdout": true, "AttachStderr": true, "Cmd": args}, &created)
	if err != nil {
		return err
	}
	if err := callEngine(ctx, "/exec/"+created.ID+"/start", map[string]any{"Detach": false}, nil); err != nil {
		return err
	}
	var result struct {
		Running  bool
		ExitCode int
	}
	if err := callEngine(ctx, "/exec/"+created.ID+"/json", nil, &result); err != nil {
		return err
	}
	if result.Running || result.ExitCode != 0 {
		return fmt.Errorf("exec ended with %+v", result)
	}
	return nil
}

// callEngine posts body, or gets when there is none, and reads the response into
// out, or to its end when out is nil.
func callEngine(ctx context.Context, path string, body, out any) error {
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := engineClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		detail, err := io.ReadAll(response.Body)
		return errors.Join(fmt.Errorf("%s %s: %s: %s", method, path, response.Status, detail), err)
	}
	if out == nil {
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(out)
}
