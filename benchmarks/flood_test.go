package benchmarks

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// BenchmarkFlood measures the hooks of tenants while another tenant sends requests
// from inside its container as fast as it can, and garbage: claims of the tenant's
// own container with one hook, end to end. It compares that with a quiet machine,
// and with a container that uses the same share of a processor for something
// else: to compute, on one processor or on all of them at once, and to connect to a
// socket of its own, which costs the others what garbage costs them, without Hostler.
func BenchmarkFlood(b *testing.B) {
	_, image := connectDocker(b)
	c := startBuild(b, buildServer(b))
	applyPoint(b, c, image, "victim", "{ min_idle: 0, max_size: 1, reuse: same_tenant }", 1)
	for _, other := range []struct{ name, command string }{
		{"quiet", "[/box, idle]"}, {"spin", "[/box, spin]"}, {"spin-all", "[/box, spin-all]"},
		{"backlog", "[/box, backlog]"}, {"flood", "[/box, ask-flood, claim, '1000000000']"}, {"garbage", "[/box, ask-garbage, 24h]"},
	} {
		b.Run(other.name, func(b *testing.B) {
			id := "other-" + other.name
			source := fmt.Sprintf("id: %s\nimage: %s\ncommand: %s\ndeploy: { resources: { limits: { cpus: 0.5 } } }\npool: { min_idle: 0, max_size: 1, reuse: never }\n", id, image, other.command)
			_, err := c.Apply(b.Context(), id, []byte(source))
			require.NoError(b, err)
			hostile, _, err := c.Claim(b.Context(), id, "mallory", time.Minute)
			require.NoError(b, err)
			benchVictim(b, c)
			releaseClaim(b, c, hostile.ID)
			_, err = c.Drain(b.Context(), id)
			require.NoError(b, err)
			awaitIdle(b, c, id, 0)
		})
	}
}

// benchVictim claims and releases one container for the same tenant, which keeps
// it, and reports the time of its hook and of the claim.
func benchVictim(b *testing.B, c *client.Client) {
	b.Helper()
	var claims, hooks []time.Duration
	for b.Loop() {
		start := time.Now()
		got, _, err := c.Claim(b.Context(), "victim", "ada", time.Minute)
		require.NoError(b, err)
		if got.Source == client.SourceAffinity {
			claims = append(claims, time.Since(start))
			hooks = append(hooks, time.Duration(got.Hooks[0].Duration*float64(time.Millisecond)))
		}
		releaseClaim(b, c, got.ID)
	}
	if len(claims) == 0 {
		return // the first one created the container
	}
	for _, q := range []float64{.5, .99} {
		b.ReportMetric(ms(quantile(claims, q)), fmt.Sprintf("claim-p%g-ms", 100*q))
		b.ReportMetric(ms(quantile(hooks, q)), fmt.Sprintf("hook-p%g-ms", 100*q))
	}
}
