package main

import (
	"os"
	"sync"
	"testing"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A command may end while a part of its input is written: what is left is dropped,
// once.
func TestCommandEndsWhileInputIsWritten(t *testing.T) {
	t.Parallel()
	c := newCommand(commandKey{5, "a"}, &shim.CommandRequest{Input: true}, []string{"x"})
	theirs, in, err := os.Pipe()
	require.NoError(t, err)
	defer theirs.Close()
	out, theirOut, err := os.Pipe()
	require.NoError(t, err)
	theirOut.Close()
	c.streams.in, c.streams.out = in, out
	_, err = in.Write(make([]byte, 10)) // so that the rest does not fit
	require.NoError(t, err)
	ok, err := c.addInput(&attachment{command: c}, 0, make([]byte, maxPendingInput))
	require.True(t, ok && err == nil)
	running := new(sync.WaitGroup)
	running.Go(func() { c.feed(in) }) // ends with finishStreams
	testenv.AwaitTrue(t, "a full pipe", func() bool {
		n, err := unix.IoctlGetInt(int(theirs.Fd()), unix.TIOCINQ)
		return err == nil && n > maxPendingInput/2
	})
	c.finishStreams(running)
	require.Empty(t, c.pending)
}
