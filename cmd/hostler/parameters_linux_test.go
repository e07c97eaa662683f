package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim/seal"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/runtime"
)

const secretToken = "tenant-t0ken=%&"

var longText = secretToken + strings.Repeat(" plain", 200) + secretToken

// leaking is an executor that returns the token in every field.
type leaking struct{ got runner.Attempt }

func (x *leaking) Execute(_ context.Context, a runner.Attempt) runner.Result {
	x.got = a
	return x.result()
}

func (x *leaking) WaitResult(_ context.Context, a runner.Attempt) runner.Result {
	x.got = a
	return x.result()
}

func (x *leaking) result() runner.Result {
	return runner.Result{
		State: hooks.Succeeded, Err: errors.Join(errors.New("of "+secretToken), runtime.ErrNotRunning),
		Detail:   hooks.Detail{Response: base64.StdEncoding.EncodeToString([]byte("x" + secretToken))},
		Stdout:   runtime.Output{Head: "a " + secretToken[:6], Tail: secretToken[6:] + " b", Total: 30},
		Stderr:   runtime.Output{Head: longText + secretToken[:9], Tail: secretToken[9:] + longText, Truncated: true, Total: 9000},
		Captured: map[string]string{"said": secretToken}, Warnings: []string{secretToken},
	}
}

func (*leaking) Ending(hooks.Run) runner.Ending { return runner.Ending{} }

// sealedAttempt returns an attempt with a secret parameter and the directory of its
// key.
func sealedAttempt(t *testing.T) (runner.Attempt, string) {
	t.Helper()
	dir := t.TempDir()
	writeParametersKey(t, dir, "k")
	sealed, err := seal.New(dir).Seal("c", "token", secretToken)
	require.NoError(t, err)
	return runner.Attempt{
		Context: runner.Context{Claim: "c"}, Parameters: map[string]string{"region": "eu", "token": "•••"}, Sealed: map[string]string{"token": sealed},
		Lookup: func(name string) (variables.Value, bool) { return variables.Value{Text: "other " + name}, true },
	}, dir
}

func writeParametersKey(t *testing.T, dir, char string) {
	t.Helper()
	key := hex.EncodeToString([]byte(strings.Repeat(char, 32)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, seal.KeyFile), []byte(key), 0o600))
}

// What performs an attempt has the values of secret parameters, and nothing that is
// recorded of its result has them.
func TestSecretParametersOfAttempts(t *testing.T) {
	a, dir := sealedAttempt(t)
	inner := new(leaking)
	x := parameterExecutor{inner, seal.New(dir)}
	for name, perform := range map[string]func(context.Context, runner.Attempt) runner.Result{"execute": x.Execute, "wait": x.WaitResult} {
		t.Run(name, func(t *testing.T) {
			r := perform(t.Context(), a)
			require.Equal(t, map[string]string{"region": "eu", "token": secretToken}, inner.got.Parameters)
			v, ok := inner.got.Lookup("PARAM_TOKEN")
			require.True(t, ok)
			require.Equal(t, variables.Value{Text: secretToken, Class: variables.Untrusted}, v)
			v, _ = inner.got.Lookup("PARAM_REGION")
			require.Equal(t, "other PARAM_REGION", v.Text)
			require.Equal(t, "a ••• b", r.Stdout.Head+r.Stdout.Tail)
			require.Regexp(t, "^•••[ plain]{1000,}•••$", r.Stderr.Head+r.Stderr.Tail)
			require.Contains(t, r.Err.Error(), "of •••")
			require.ErrorIs(t, r.Err, runtime.ErrNotRunning)
			require.Equal(t, map[string]string{"said": "•••"}, r.Captured)
			require.Equal(t, []string{"•••"}, r.Warnings)
			require.NotContains(t, r.Detail.Response, base64.StdEncoding.EncodeToString([]byte("x" + secretToken))[4:12])
		})
	}
	require.Equal(t, "•••", a.Parameters["token"], "the caller's attempt stays without them")
}

// With another key an attempt does not start, and of one that has started nothing is
// kept that could have a secret.
func TestAttemptsWithReplacedKey(t *testing.T) {
	a, dir := sealedAttempt(t)
	writeParametersKey(t, dir, "o")
	inner := new(leaking)
	x := parameterExecutor{inner, seal.New(dir)}
	r := x.Execute(t.Context(), a)
	require.Equal(t, hooks.StartFailed, r.State)
	require.ErrorContains(t, r.Err, "(secret parameter token)")
	require.Nil(t, inner.got.Parameters, "it did not start")
	r = x.WaitResult(t.Context(), a)
	require.Equal(t, hooks.Succeeded, r.State)
	require.ErrorIs(t, r.Err, runtime.ErrNotRunning)
	require.NotContains(t, r.Err.Error()+r.Stdout.Head+r.Stderr.Head+r.Stdout.Tail+r.Stderr.Tail+r.Detail.Response, "t0ken")
	require.Empty(t, r.Captured)
}

// The flags of a claim, from arguments and files.
func TestClaimFlags(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		return filepath.Join(dir, name)
	}
	f := claimFlags{
		labels: []string{"team=a=b", "empty="}, parameters: []string{"region=eu"}, parameterFiles: []string{"token=" + write("token", "one\ntwo\r\n")},
		environment: []string{"A=argument"}, environmentFile: write("env", "# a comment\nA=file\r\n\nB=x # y\n"),
	}
	o, err := f.options(newClaimCmd(), 0)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"team": "a=b", "empty": ""}, o.Labels)
	require.Equal(t, map[string]string{"region": "eu", "token": "one\ntwo"}, o.Parameters)
	require.Equal(t, map[string]string{"A": "argument", "B": "x # y"}, o.Environment)
	for _, f := range []claimFlags{
		{labels: []string{"team"}}, {labels: []string{"=a"}}, {parameters: []string{"secret-value"}}, {environment: []string{"secret-value"}},
		{parameterFiles: []string{"x=" + filepath.Join(dir, "none")}}, {environmentFile: filepath.Join(dir, "none")},
		{parameters: []string{"token=a"}, parameterFiles: []string{"token=" + filepath.Join(dir, "token")}},
	} {
		_, err := f.options(newClaimCmd(), 0)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret-value")
	}
}
