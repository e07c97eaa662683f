package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// readInParts reads all output of a command with attachments that end at random.
func readInParts(t *testing.T, session *shim.Session, cmd runtime.TenantCommand, random *rand.Rand) (size int64, err error) {
	for {
		cmd.After = size
		s, err := session.OpenCommand(t.Context(), cmd)
		if err != nil {
			return size, err
		}
		for until := size + random.Int64N(100_000); size < until; {
			out, err := s.Next()
			if errors.Is(err, io.EOF) {
				_, err = s.Result()
				return size, errors.Join(err, s.Acknowledge(size), s.Close())
			}
			if err != nil {
				return size, err
			}
			size += int64(len(out.Data))
			if random.IntN(3) == 0 {
				if err := s.Acknowledge(size); err != nil {
					return size, err
				}
			}
		}
		if err := s.Close(); err != nil {
			return size, err
		}
	}
}

// Many commands whose clients come and go lose no output, and end with a restart.
func TestManyCommands(t *testing.T) {
	t.Parallel()
	session, _ := newCommandClient(t)
	const size = 600_000
	var clients errgroup.Group
	for i := range uint64(8) {
		random := rand.New(rand.NewPCG(i, 0)) //nolint:gosec // not a secret
		clients.Go(func() error {
			for n := range 3 {
				got, err := readInParts(t, session, runtime.TenantCommand{
					ID: fmt.Sprintf("%d-%d", i, n), Fence: 7,
					Args: []string{"sh", "-c", fmt.Sprintf("head -c %d /dev/zero; head -c 7 /dev/zero >&2", size)},
				}, random)
				assert.EqualValues(t, size+7, got)
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, clients.Wait())

	var held []runtime.CommandStream
	for i := range runtime.MaxTenantCommands {
		s, err := session.OpenCommand(t.Context(), runtime.TenantCommand{
			ID: fmt.Sprint("held-", i), Fence: 7, Args: []string{"cat", "/dev/zero"},
		})
		require.NoError(t, err)
		held = append(held, s)
	}
	require.NoError(t, session.Restart(t.Context(), 8))
	for _, s := range held {
		_, err := s.Next()
		for err == nil {
			_, err = s.Next()
		}
		require.ErrorIs(t, err, io.EOF)
		_, err = s.Result()
		require.ErrorIs(t, err, runtime.ErrContainerExited)
	}
	_, err := session.OpenCommand(t.Context(), runtime.TenantCommand{ID: "late", Fence: 7, Args: []string{"true"}})
	require.ErrorIs(t, err, runtime.ErrStaleFence)
}
