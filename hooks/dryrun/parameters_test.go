package dryrun_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks/dryrun"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/workload"
)

// A dry run shows parameters with given values, defaults or examples, and never the
// value of a secret one.
func TestParameters(t *testing.T) {
	w, err := workload.Parse([]byte(`
id: web
image: app:1
parameters: { region: { default: eu }, project: {}, token: { secret: true } }
hooks:
  post_claim:
    - { name: run, command: [x], environment: { AT: "${PARAM_REGION}" } }
    - { name: send, webhook: { url: "http://h.example/${PARAM_PROJECT}", body: '{"token": "${PARAM_TOKEN}"}' } }
  post_create: [{ name: early, webhook: { url: "http://h.example/x?p=${PARAM_PROJECT}" } }]
`), "w.yaml")
	require.NoError(t, err)
	x, err := request.New(request.Options{Allow: []string{"*.example"}})
	require.NoError(t, err)
	t.Cleanup(x.Close)
	s := dryrun.New(func(context.Context, string) (*workload.Workload, error) { return w, nil }, x)

	r, err := s.Run(t.Context(), "web", "post_claim", map[string]string{"PARAM_PROJECT": "a/b"})
	require.NoError(t, err)
	environment := r.Hooks[0].Command.Environment
	require.Equal(t, []string{"eu", "a/b", "•••", "eu"}, []string{
		environment["HOSTLER_PARAM_REGION"], environment["HOSTLER_PARAM_PROJECT"], environment["HOSTLER_PARAM_TOKEN"], environment["AT"],
	})
	require.Contains(t, r.Hooks[1].Request.URL, "/a%2Fb")
	require.Equal(t, `{"token": "•••"}`, r.Hooks[1].Request.Body)
	require.Equal(t, []dryrun.Variable{
		{Name: "PARAM_PROJECT", Value: "a/b", Source: dryrun.Given, Untrusted: true},
		{Name: "PARAM_TOKEN", Value: "•••", Source: dryrun.OfSecret, Untrusted: true},
	}, r.Hooks[1].Variables)
	_, err = s.Run(t.Context(), "web", "post_claim", map[string]string{"PARAM_TOKEN": "v4lue of it"})
	require.ErrorIs(t, err, dryrun.ErrInvalid)
	require.NotContains(t, err.Error(), "v4lue")
	_, err = s.Run(t.Context(), "web", "post_claim", map[string]string{"PARAM_OTHER": "x"})
	require.ErrorIs(t, err, dryrun.ErrInvalid)
	r, err = s.Run(t.Context(), "web", "post_create", nil)
	require.NoError(t, err)
	require.True(t, r.Hooks[0].Variables[0].Missing, "there is no claim")
}
