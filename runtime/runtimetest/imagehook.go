package runtimetest

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// imageHookCases are the hooks of images.
func imageHookCases(t *testing.T, s *suite) {
	cases := []testCase{
		{"none", noImageHooks}, {"changed by root", changedImageHook}, {"attacked", attackedImageHook}, {"out of memory", imageHookOutOfMemory},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.run(t, s)
		})
	}
}

// imageHooks lists the hooks of a container's image.
func (c *container) imageHooks(t *testing.T) runtime.ImageHooks {
	t.Helper()
	found, err := c.rt.ImageHooks(t.Context(), c.id, []string{"post_start", "post_claim"}, 0)
	require.NoError(t, err)
	return found
}

// An image without hooks has none. A file that is not listed is not run as one.
func noImageHooks(t *testing.T, s *suite) {
	c := s.start(t)
	found := c.imageHooks(t)
	require.Empty(t, found.Hooks)
	require.Equal(t, s.Limitations.NoImageHooks, len(found.Refused) == 1, "%v", found.Refused)
	for _, path := range []string{runtime.ImageHooksDir + "/post_start", c.testprog} {
		c.refusesImageHook(t, runtime.ImageHook{Path: path, Digest: "00"})
	}
	_, err := s.rt.ImageHooks(t.Context(), s.Spec(t).ID, nil, 0)
	require.ErrorIs(t, err, runtime.ErrNotFound)
}

// runImageHook runs a hook of the image.
func (c *container) runImageHook(t *testing.T, h runtime.ImageHook) (runtime.Result, error) {
	t.Helper()
	return c.exec(t, runtime.Command{Args: []string{h.Path}, Digest: h.Digest, Timeout: longGrace})
}

// refusesImageHook checks that a hook does not start.
func (c *container) refusesImageHook(t *testing.T, h runtime.ImageHook) {
	t.Helper()
	_, err := c.runImageHook(t, h)
	_, ok := errors.AsType[*runtime.StartError](err)
	require.True(t, ok, "%v", err)
}

// A hook is run by its digest, a script by its interpreter. What root puts in its
// place is not run, and a link is refused.
func changedImageHook(t *testing.T, s *suite) {
	l := s.Limitations
	if isUnsupported(t, l.NoImageHooks || l.NoKernel || l.SharedHost || l.SingleUser, "an image in which root adds files") {
		return
	}
	c := s.start(t)
	file := runtime.ImageHooksDir + "/post_start"
	put := func(text string) { require.True(t, c.execAsRoot(t, "write", file, text)) }
	text := "#!" + c.testprog + " read\n"
	put(text)
	require.True(t, c.execAsRoot(t, "chmod", file, "755"))
	found := c.imageHooks(t)
	require.Empty(t, found.Refused)
	require.Len(t, found.Hooks, 1)
	require.Equal(t, file, found.Hooks[0].Path)
	result, err := c.runImageHook(t, found.Hooks[0])
	require.NoError(t, err)
	require.True(t, result.OK(), "%+v", result)
	require.Equal(t, text, result.Stdout.String())
	put(text + "changed")
	c.refusesImageHook(t, found.Hooks[0])
	put(text)
	require.True(t, c.execAsRoot(t, "chmod", file, "777"))
	c.refusesImageHook(t, found.Hooks[0])
	require.True(t, c.execAsRoot(t, "remove", file))
	require.True(t, c.execAsRoot(t, "link", c.testprog, file))
	c.refusesImageHook(t, found.Hooks[0])
	found = c.imageHooks(t)
	require.Empty(t, found.Hooks)
	require.Len(t, found.Refused, 1)
}

// largeImageHook adds a script of n bytes to the image, as a tenant who is root could,
// and lists it.
func (c *container) largeImageHook(t *testing.T, n int) runtime.ImageHook {
	t.Helper()
	file := runtime.ImageHooksDir + "/post_claim"
	require.True(t, c.execAsRoot(t, "write", file, ""))
	require.True(t, c.execAsRoot(t, "fill", file, strconv.Itoa(n)))
	require.True(t, c.execAsRoot(t, "chmod", file, "755"))
	found := c.imageHooks(t)
	require.Len(t, found.Hooks, 1, "%v", found.Refused)
	return found.Hooks[0]
}

// stopImageHook starts a hook and stops the shim before it becomes the hook, as a
// process of its user can. It returns its PID, or "" if it was too fast.
func (c *container) stopImageHook(t *testing.T, h runtime.ImageHook) (pid string, done <-chan error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { // ends with the hook
		_, err := c.runImageHook(t, h)
		ended <- err
	}()
	for len(ended) == 0 {
		for line := range strings.Lines(c.mustExec(t, "ps", "image-hook")) {
			found, _, _ := strings.Cut(line, " ")
			if c.mustExec(t, "attack", found, "stop") == "stop\n" {
				return found, ended
			}
		}
	}
	return "", ended
}

// What becomes a hook of the image is not accessible to the processes of its user,
// who may stop it for as long as they want: the copy cannot be changed.
func attackedImageHook(t *testing.T, s *suite) {
	l := s.Limitations
	if isUnsupported(t, l.NoImageHooks || l.NoKernel || l.SharedHost || l.SingleUser, "an image in which root adds files") {
		return
	}
	c := s.start(t)
	h := c.largeImageHook(t, runtime.MaxImageHookSize)
	for n := range 100 {
		pid, done := c.stopImageHook(t, h)
		if pid == "" {
			require.ErrorContains(t, <-done, "exec format error", "nothing but its content prevents it")
			continue
		}
		permitted := c.mustExec(t, "attack", pid, "trace", "read mem", "write mem", "read maps", "read fd/0", "read fd/1", "read exe", "read environ", "directory")
		isShim := strings.Contains(c.mustExec(t, "ps", "image-hook"), h.Digest) // else it has become the hook
		killed, err := c.exec(t, c.command("kill", pid, "KILL"))
		require.NoError(t, err)
		if killed.ExitCode != 0 { // it had ended, so that nothing is known of it
			t.Log("the hook ended while it was stopped:", <-done)
			continue
		}
		require.NoError(t, <-done)
		if isShim {
			t.Log("at attempt", n)
			require.Empty(t, permitted)
			return
		}
	}
	t.Fatal("the shim could not be stopped")
}

// The copy of a hook is part of the container's memory. A hook for which there is
// not enough has run out of memory, and the container can still be used, or has
// ended for that reason.
func imageHookOutOfMemory(t *testing.T, s *suite) {
	l := s.Limitations
	if isUnsupported(t, l.NoOOMCounter || l.NoImageHooks || l.NoKernel || l.SharedHost || l.SingleUser, "to report that a hook of the image ran out of memory") {
		return
	}
	c := s.start(t, func(spec *runtime.Spec) { spec.Limits.Memory = 16 << 20 })
	h := c.largeImageHook(t, runtime.MaxImageHookSize)
	result, err := c.runImageHook(t, h)
	if c.hasExitedOutOfMemory(t, err) {
		return
	}
	require.NoError(t, err)
	require.True(t, result.OOMKilled, "%+v", result)
	require.Equal(t, "a\n", c.mustExec(t, "echo", "a"))
}
