package dryrun_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
)

// No event and no value ends a dry run with a panic, or shows a secret.
func TestOddValues(t *testing.T) {
	s, connections := setUp(t)
	values := []string{"", "null", "[]", `"x"`, "1e999", `{"oom_killed": null}`, `{"exit_code": "x"}`, `{"exit_code": 1e40}`, strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"\x00\xff", "${TOKEN}", "$${TOKEN}", "%", "\r\nX: y", "http://a:b@c", "•••", strings.Repeat("a", 8<<10)}
	points := []string{"pre_start", "post_start", "post_create", "post_claim", "pre_release", "pre_destroy", "session-start", "error", "message.add", "claim"}
	for _, e := range activity.Types() {
		points = append(points, string(e))
	}
	for _, on := range points {
		for _, v := range values {
			for _, name := range []string{"EVENT_DATA", "EVENT_MESSAGE", "TENANT_ID", "KEY_ID", "REGISTRY", "CLAIM_SOURCE", "CONTAINER_ID"} {
				r, err := s.Run(t.Context(), "web", on, map[string]string{name: v})
				if err == nil {
					hasNoSecret(t, r)
				}
			}
		}
	}
	require.Zero(t, connections())
}
