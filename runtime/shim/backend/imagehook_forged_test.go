package backend

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// What the main process of an image prints in the place of the shim is a list only
// if the shim could have printed it.
func TestForgedImageHooks(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0a", 32)
	a := runtime.ImageHook{Point: "post_claim", Path: "/etc/hostler/hooks/post_claim.d/a", Digest: digest}
	with := func(change func(h *runtime.ImageHook)) runtime.ImageHook {
		h := a
		change(&h)
		return h
	}
	path := func(path string) []runtime.ImageHook {
		return []runtime.ImageHook{with(func(h *runtime.ImageHook) { h.Path = path })}
	}
	start := with(func(h *runtime.ImageHook) { h.Point, h.Path = "post_start", "/etc/hostler/hooks/post_start" })
	point := with(func(h *runtime.ImageHook) { h.Path = "/etc/hostler/hooks/post_claim" })
	cases := map[string][]runtime.ImageHook{
		"another directory":       path("/etc/hostler/hooks/post_claim.d/../../../../tmp/a"),
		"a directory below":       path("/etc/hostler/hooks/post_claim.d/a/b"),
		"another point":           path("/etc/hostler/hooks/post_claimed/a"),
		"the directory":           path("/etc/hostler/hooks/post_claim.d"),
		"the name of the point":   path("/etc/hostler/hooks/post_claim.d/post_claim"),
		"a control character":     path("/etc/hostler/hooks/post_claim.d/a\x1b[2J"),
		"a line break":            path("/etc/hostler/hooks/post_claim.d/a\n"),
		"a long name":             path("/etc/hostler/hooks/post_claim.d/" + strings.Repeat("a", 65)),
		"a digest that is none":   {with(func(h *runtime.ImageHook) { h.Digest = "-rf" })},
		"a long digest":           {with(func(h *runtime.ImageHook) { h.Digest += "00" })},
		"the same file twice":     {a, a},
		"another order":           {with(func(h *runtime.ImageHook) { h.Path += "b" }), a},
		"another order of files":  {a, point},
		"another order of points": {a, start},
	}
	printed := func(found runtime.ImageHooks) runtime.Result {
		text, err := json.Marshal(found)
		require.NoError(t, err)
		return runtime.Result{Stdout: runtime.Output{Head: string(text)}}
	}
	for name, forged := range cases {
		_, err := listed(t, printed(runtime.ImageHooks{Hooks: forged}), nil)
		require.ErrorContains(t, err, "was not asked for", name)
	}
	_, err := listed(t, printed(runtime.ImageHooks{Hooks: []runtime.ImageHook{start, point, a}}), nil)
	require.NoError(t, err)

	_, err = listed(t, printed(runtime.ImageHooks{Refused: make([]string, 1000)}), nil)
	require.ErrorContains(t, err, "refusals")
	found, err := listed(t, printed(runtime.ImageHooks{Refused: []string{"\x1b[2Ja\nb" + strings.Repeat("c", 30<<10)}}), nil)
	require.NoError(t, err)
	require.NotNil(t, found.Hooks)
	requireOneLine(t, found.Refused[0])
}

// requireOneLine checks that a text of a container is short, and that it controls
// no terminal.
func requireOneLine(t *testing.T, text string) {
	t.Helper()
	require.LessOrEqual(t, len(text), 2<<10)
	require.False(t, strings.ContainsFunc(text, unicode.IsControl), "%q", text)
}

// A shim that has crashed has not said that the image has no hooks: the runtime of
// its language exits with the code of a wrong usage.
func TestCrashedListingIsAnError(t *testing.T) {
	t.Parallel()
	crashed := runtime.Result{ExitCode: 2, Stderr: runtime.Output{Head: "runtime: failed to create new OS thread (have 2 already; errno=11)\nfatal error: newosproc\n"}}
	_, err := listed(t, crashed, nil)
	require.ErrorContains(t, err, "failed to create new OS thread")
	noisy := runtime.Result{ExitCode: 1, Stderr: runtime.Output{Head: "\x1b[2Ja\n"}}
	_, err = listed(t, noisy, nil)
	requireOneLine(t, err.Error())
	slow := runtime.Result{ExitCode: 143, Signal: "SIGTERM", TimedOut: true}
	_, err = listed(t, slow, nil)
	require.ErrorContains(t, err, "longer than")
	_, err = listImageHooks(t.Context(), func(_ context.Context, cmd runtime.Command) (runtime.Result, error) {
		require.Greater(t, cmd.Timeout, runtime.DefaultTimeout, "64 files of 16 MiB take their time")
		return runtime.Result{}, runtime.ErrUnavailable
	}, nil, 0)
	require.ErrorIs(t, err, runtime.ErrUnavailable)
}

// A hook that prints what the shim prints when it refuses one has still run: its
// output, its timeout and what it left behind are on record.
func TestHookThatPretendsToBeRefused(t *testing.T) {
	t.Parallel()
	cmd := runtime.Command{Args: []string{"/etc/hostler/hooks/post_claim"}, Digest: "d"}
	refused := runtime.Result{ExitCode: shim.ExitRefused}
	refused.Stderr.Head = shim.ImageHookRefused + "\x1b[2Jit was changed\u0085 " + strings.Repeat("x", 4000) + "\n"
	call := func(change func(r *runtime.Result)) (runtime.Result, error) {
		r := refused
		change(&r)
		return imageHookResult(cmd, func(context.Context, runtime.Command) (runtime.Result, error) { return r, nil })(t.Context(), cmd)
	}
	for name, change := range map[string]func(r *runtime.Result){
		"its timeout passed":       func(r *runtime.Result) { r.TimedOut = true },
		"it left a process behind": func(r *runtime.Result) { r.Leaked = 1 },
		"it was killed":            func(r *runtime.Result) { r.Signal = "SIGTERM" },
		"it wrote to stdout":       func(r *runtime.Result) { r.Stdout.Head, r.Stdout.Total = "a", 1 },
		"it wrote more":            func(r *runtime.Result) { r.Stderr.Head += "b\n" },
		"it wrote much more":       func(r *runtime.Result) { r.Stderr.Tail = "b\n" },
		"it wrote no line":         func(r *runtime.Result) { r.Stderr.Head = strings.TrimSpace(r.Stderr.Head) },
	} {
		result, err := call(change)
		require.NoError(t, err, name)
		require.Equal(t, shim.ExitRefused, result.ExitCode, name)
	}
	_, err := call(func(*runtime.Result) {})
	start, ok := errors.AsType[*runtime.StartError](err)
	require.True(t, ok)
	requireOneLine(t, start.Detail)
}
