package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is valid and probably a mistake is noted with its position, and is no note
// of what apply prints.
func TestAdvice(t *testing.T) {
	const healthy = "healthcheck: {test: [NONE]}\n"
	for source, want := range map[string][]string{
		"id: a\nimage: x:1\n" + healthy:                          nil,
		"id: a\nimage: h:5000/x@sha256:aa\n" + healthy:           nil,
		"id: a\nimage: h:5000/x\n" + healthy:                     {"w.yaml:2:8: note: image: has no tag: h:5000/x is what latest stands for when it is pulled (write a tag that does not move, or a digest)"},
		"id: a\nimage: x:latest\n" + healthy:                     {"w.yaml:2:8: note: image: has the tag latest, which stands for another image from time to time (write a tag that does not move, or a digest)"},
		"id: a\nimage: x:1\n":                                    {"w.yaml:1:1: note: healthcheck: is missing: a container is ready as soon as its main process runs (write a test that succeeds when the program can be used, or test: [NONE])"},
		"id: a\nimage: x:1\npool: {idle_timeout: 0}\n" + healthy: nil,
		"id: a\nimage: x:1\npool: {idle_timeout: 30}\n" + healthy: {
			"w.yaml:3:22: note: pool.idle_timeout: is 30ms: a number without a unit is milliseconds (write 30ms, or 30s if seconds are meant)"},
		"id: a\nimage: x:1\npool: {min_idle: 0}\nhooks: {post_create: [{command: [x], timeout: 5s}]}\n" + healthy: {
			"w.yaml:4:23: note: hooks.post_create[0]: delays a claim: with pool.min_idle 0, a container is created when a tenant waits for it (raise min_idle)"},
		"id: a\nimage: x:1\npool: {min_idle: 0}\nhooks: {post_claim: [{command: [x], timeout: 5s}]}\n" + healthy: nil,
	} {
		w, err := Parse([]byte(source), "w.yaml")
		require.NoError(t, err, source)
		var got []string
		for _, n := range w.Advice {
			got = append(got, n.String())
		}
		require.Equal(t, want, got, source)
		require.Empty(t, w.Notes, source)
	}
}
