package backend

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// listed returns what a listing is when the shim's command ends so.
func listed(t *testing.T, result runtime.Result, err error) (runtime.ImageHooks, error) {
	t.Helper()
	return listImageHooks(t.Context(), func(_ context.Context, cmd runtime.Command) (runtime.Result, error) {
		require.Equal(t, []string{shim.BinaryPath, "image-hooks", "post_start", "post_claim"}, cmd.Args)
		require.Equal(t, int64(7), cmd.Fence)
		return result, err
	}, []string{"post_start", "post_claim"}, 7)
}

// A list is read only if it is complete and of what was asked for. A shim without
// the subcommand lists nothing, with a reason.
func TestImageHooks(t *testing.T) {
	t.Parallel()
	hook := runtime.ImageHook{Point: "post_claim", Path: "/etc/hostler/hooks/post_claim.d/a", Digest: strings.Repeat("0a", 32)}
	printed := func(hooks ...runtime.ImageHook) runtime.Result {
		text, err := json.Marshal(runtime.ImageHooks{Hooks: hooks, Refused: []string{"b"}})
		require.NoError(t, err)
		return runtime.Result{Stdout: runtime.Output{Head: string(text)}}
	}
	found, err := listed(t, printed(hook), nil)
	require.NoError(t, err)
	require.Equal(t, runtime.ImageHooks{Hooks: []runtime.ImageHook{hook}, Refused: []string{"b"}}, found)

	found, err = listed(t, runtime.Result{ExitCode: 2, Stderr: runtime.Output{Head: "usage: hostler-shim init | connect\n"}}, nil)
	require.NoError(t, err)
	require.Empty(t, found.Hooks)
	require.Len(t, found.Refused, 1)

	found, err = listed(t, runtime.Result{}, &runtime.StartError{Reason: runtime.StartNotExecutable})
	require.NoError(t, err)
	require.Empty(t, found.Hooks)
	require.Len(t, found.Refused, 1)
	_, err = listed(t, runtime.Result{}, &runtime.StartError{Reason: runtime.StartUserNotFound})
	require.Error(t, err)

	_, err = listed(t, runtime.Result{}, runtime.ErrUnavailable)
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	failed, truncated, broken := printed(hook), printed(hook), printed(hook)
	failed.ExitCode, truncated.Stdout.Truncated, broken.Stdout.Head = 1, true, "{"
	noDigest, otherPoint, otherPath, many := hook, hook, hook, make([]runtime.ImageHook, runtime.MaxImageHooks+1)
	noDigest.Digest, otherPoint.Point, otherPath.Path = "", "pre_start", "/bin/sh"
	for i := range many {
		many[i] = hook
	}
	for _, result := range []runtime.Result{failed, truncated, broken, printed(noDigest), printed(otherPoint), printed(otherPath), printed(many...)} {
		_, err := listed(t, result, nil)
		require.Error(t, err)
	}
}

// A hook of the image is run by its digest. One that the shim refuses has never
// started.
func TestImageHookCommand(t *testing.T) {
	t.Parallel()
	cmd := runtime.Command{Args: []string{"/etc/hostler/hooks/post_claim"}, Digest: "d"}
	require.Equal(t, []string{shim.BinaryPath, "image-hook", "d", "/etc/hostler/hooks/post_claim"}, imageHookCommand(cmd).Args)
	require.Equal(t, []string{"a"}, imageHookCommand(runtime.Command{Args: []string{"a"}}).Args)

	refused := runtime.Result{ExitCode: shim.ExitRefused, Stderr: runtime.Output{Head: shim.ImageHookRefused + "it was changed\n"}}
	call := func(result runtime.Result, err error) execFunc {
		return func(context.Context, runtime.Command) (runtime.Result, error) { return result, err }
	}
	_, err := imageHookResult(cmd, call(refused, nil))(t.Context(), cmd)
	start, ok := errors.AsType[*runtime.StartError](err)
	require.True(t, ok)
	require.Equal(t, "it was changed", start.Detail)
	result, err := imageHookResult(runtime.Command{}, call(refused, nil))(t.Context(), cmd)
	require.NoError(t, err)
	require.Equal(t, refused, result)
	ran := refused
	ran.ExitCode = 1
	result, err = imageHookResult(cmd, call(ran, nil))(t.Context(), cmd)
	require.NoError(t, err)
	require.Equal(t, 1, result.ExitCode)
	_, err = imageHookResult(cmd, call(refused, runtime.ErrTainted))(t.Context(), cmd)
	require.ErrorIs(t, err, runtime.ErrTainted)
}
