package workload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
)

func parseText(t *testing.T, source string) *Workload {
	t.Helper()
	w, err := Parse([]byte(source), "w.yaml")
	require.NoError(t, err, source)
	return w
}

func namesAt(w *Workload, p hooks.Point) []string {
	var names []string
	for _, h := range w.Hooks[p] {
		names = append(names, h.Name)
	}
	return names
}

const parentFile = `
id: parent
image: p
volumes: { state: { target: /parent } }
secrets: { A: { file: a }, B: { file: b } }
hooks:
  post_create: [{ command: [p0] }]
  post_claim:
    - { name: x, command: [px] }
    - { command: [p1] }
    - { name: y, script: py }
  pre_release: [{ name: z, command: [pz] }]
  events:
    - { name: e, on: [claim.failed, claim.released], webhook: { url: "https://a.example/${A}" } }
    - { name: f, on: [claim.released], webhook: { url: "https://a.example/${B}" } }
    - { name: g, on: [container], builtin: log }
`

// The hooks of another workload come first. Those of the file replace them by
// name, and an empty list removes them.
func TestWithHooksOf(t *testing.T) {
	child := parseText(t, `
id: child
image: c
hooks_from: parent
environment: &env { X: "1", <<: { Y: "2" } }
secrets: { B: { env: HOSTLER_SECRET_B } }
volumes: { state: { target: /child } }
pool: { min_idle: 3 }
hooks:
  post_claim:
    - { command: [c0], environment: *env }
    - { name: x, command: [cx] }
  pre_release: []
  session.end: []
  events: [{ name: g, on: [claim], builtin: log }]
`)
	w, err := child.WithHooksOf(parseText(t, parentFile), "w.yaml")
	require.NoError(t, err)
	require.Equal(t, []string{"post_create[0]"}, namesAt(w, hooks.PostCreate))
	require.Equal(t, []string{"x", "post_claim[1]", "y", "post_claim[3]"}, namesAt(w, hooks.PostClaim))
	require.Equal(t, []string{"cx"}, w.Hooks[hooks.PostClaim][0].Action.(hooks.Command).Args)
	require.Equal(t, []string{"c0"}, w.Hooks[hooks.PostClaim][3].Action.(hooks.Command).Args)
	require.Equal(t, map[string]string{"X": "1", "Y": "2"}, texts(w.Hooks[hooks.PostClaim][3].Action.(hooks.Command).Environment))
	require.Equal(t, "/child", w.Hooks[hooks.PostClaim][2].Action.(hooks.Script).Workdir)
	require.Empty(t, w.Hooks[hooks.PreRelease])
	require.Len(t, w.EventHooks, 2)
	require.Equal(t, []string{"claim.failed"}, w.EventHooks[0].On)
	require.Equal(t, []string{"claim"}, w.EventHooks[1].On)
	require.Equal(t, map[string]hooks.Secret{"A": {File: "a"}, "B": {Env: "HOSTLER_SECRET_B"}}, w.Secrets)

	require.True(t, child.IsAppliedAs(w.Source))
	require.False(t, parseText(t, string(child.Source)+"# changed\n").IsAppliedAs(w.Source))
	require.True(t, w.IsAppliedAs(w.Source))
	require.False(t, w.IsAppliedAs(child.Source))
	require.Empty(t, w.HooksFrom)
	require.Equal(t, 3, w.Pool.MinIdle)
	require.Equal(t, map[string]string{"X": "1", "Y": "2"}, w.Environment)
	require.Equal(t, w, parseText(t, string(w.Source)), "its source does not depend on the other workload")
	again, err := child.WithHooksOf(parseText(t, parentFile), "w.yaml")
	require.NoError(t, err)
	require.Equal(t, string(w.Source), string(again.Source))
}

// What the copied hooks name must be supplied by the file.
func TestWithHooksOfChecksNames(t *testing.T) {
	parent := parseText(t, "id: parent\nimage: p\nenvironment: {HOST: 'https://a.example'}\nhooks: {post_claim: [{webhook: {url: '${HOST}/'}}]}")
	_, err := parseText(t, fileWith("hooks_from: parent")).WithHooksOf(parent, "w.yaml")
	require.ErrorContains(t, err, "names HOST, which nothing supplies")
	_, err = Parse([]byte(fileWith("hooks_from: a")), "")
	require.ErrorContains(t, err, "this workload itself")
}

// A workload is reported after the one that it copies hooks from, also if they
// name each other.
func TestDirectoryReportsParentsFirst(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a.yaml", workloadOf("a", "one")+"hooks_from: b\n")
	writeFile(t, dir, "b.yaml", workloadOf("b", "one")+"hooks_from: c\n")
	writeFile(t, dir, "c.yaml", workloadOf("c", "one"))
	writeFile(t, dir, "d.yaml", workloadOf("d", "one")+"hooks_from: e\n")
	writeFile(t, dir, "e.yaml", workloadOf("e", "one")+"hooks_from: d\n")
	var d Directory
	changes, err := d.scan(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"c.yaml c=one", "b.yaml b=one", "a.yaml a=one", "d.yaml d=one", "e.yaml e=one"}, describe(changes))
}
