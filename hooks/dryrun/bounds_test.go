package dryrun_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks/dryrun"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/workload"
)

func serviceOf(t *testing.T, text string) *dryrun.Service {
	t.Helper()
	redactor := new(request.Redactor)
	x, err := request.New(request.Options{Allow: []string{"*.example"}, Redactor: redactor, Secrets: request.NewSecrets("", redactor)})
	require.NoError(t, err)
	t.Cleanup(x.Close)
	w, err := workload.Parse([]byte(text), "w.yaml")
	require.NoError(t, err)
	return dryrun.New(func(context.Context, string) (*workload.Workload, error) { return w, nil }, x)
}

// A secret that no hook of the report uses is in none of its texts either.
func TestUnusedSecret(t *testing.T) {
	t.Setenv("HOSTLER_SECRET_TOKEN", canary)
	s := serviceOf(t, `
id: web
image: app:1
environment: { GREETING: "hello `+canary+`" }
secrets: { TOKEN: { env: HOSTLER_SECRET_TOKEN }, NONE: { env: HOSTLER_SECRET_NONE } }
hooks:
  post_claim: [{ name: greet, script: 'echo "$TEXT"', environment: { TEXT: "${GREETING}" } }]
  pre_release: [{ name: use, http: { url: "http://a.example/", auth: { type: bearer, secret: TOKEN } } }]
`)
	r, err := s.Run(t.Context(), "web", "post_claim", nil)
	require.NoError(t, err)
	hasNoSecret(t, r)
}

// What the hooks for an event get of it is bounded as well.
func TestEnvelopesAreBounded(t *testing.T) {
	var hooks strings.Builder
	for i := range 40 {
		fmt.Fprintf(&hooks, "    - { name: h%d, on: [claim.activated], command: [x] }\n", i)
	}
	s := serviceOf(t, "id: web\nimage: app:1\nhooks:\n  events:\n"+hooks.String())
	_, err := s.Run(t.Context(), "web", "claim.activated", map[string]string{"EVENT_MESSAGE": strings.Repeat("x", 900<<10)})
	require.ErrorIs(t, err, dryrun.ErrInvalid)
}

// What templates expand to is bounded for all hooks together.
func TestReportIsBounded(t *testing.T) {
	var hooks strings.Builder
	for i := range 40 {
		fmt.Fprintf(&hooks, "    - { name: h%d, command: [x], environment: { A: %q, B: %q } }\n", i, strings.Repeat("${TENANT_ID}", 8), strings.Repeat("${TENANT_ID}", 8))
	}
	s := serviceOf(t, "id: web\nimage: app:1\nhooks:\n  post_claim:\n"+hooks.String())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := s.Run(t.Context(), "web", "post_claim", map[string]string{"TENANT_ID": strings.Repeat("x", 900<<10)})
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, dryrun.ErrInvalid)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20), "118 MB with the race detector, 2.5 GiB without a limit")
}
