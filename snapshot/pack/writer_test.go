package pack

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Packs are stored in parallel, as many at once as are allowed for.
func TestParallelPuts(t *testing.T) {
	t.Parallel()
	f, to := formats()["plain"], &bucket{}
	var mu sync.Mutex
	var sent int64
	w := NewWriter(t.Context(), to, "packs/", f, func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		sent += n
	})
	data := noise(MaxData)
	packs := map[ID]bool{}
	for i := range 20 {
		data[0] = byte(i)
		r, err := w.Add(Data, Hash{byte(i)}, data)
		require.NoError(t, err)
		packs[r.Pack] = true
	}
	_, _, filling := w.Filling()
	require.False(t, filling)
	require.NoError(t, w.Flush())
	stored, n := w.Stored()
	require.Equal(t, 10, n)
	require.Len(t, packs, 10)
	require.Len(t, to.all, 10)
	require.LessOrEqual(t, to.most, maxPuts)
	require.Equal(t, stored, sent)
	require.Greater(t, stored, int64(20*MaxData))
}

// A failed store fails a later Add or Flush, and no goroutine is left.
func TestFailedPut(t *testing.T) {
	t.Parallel()
	errPut := errors.New("put")
	f := formats()["plain"]
	for _, blobs := range []int{1, 2, 6} {
		to := &bucket{failing: errPut}
		w := NewWriter(t.Context(), to, "packs/", f, nil)
		var err error
		for i := 0; i < blobs && err == nil; i++ {
			_, err = w.Add(Data, Hash{byte(i)}, noise(MaxData))
		}
		if err == nil {
			err = w.Flush()
		} else {
			require.ErrorIs(t, w.Discard(), errPut)
		}
		require.True(t, errors.Is(err, errPut) || errors.Is(err, context.Canceled), "%v", err)
	}
}

// A discarded writer waits for what it stores, which ends with its context.
func TestDiscard(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	to := &bucket{gate: make(chan struct{})}
	w := NewWriter(ctx, to, "packs/", formats()["plain"], nil)
	for i := range 3 {
		_, err := w.Add(Data, Hash{byte(i)}, noise(MaxData))
		require.NoError(t, err)
	}
	cancel()
	require.ErrorIs(t, w.Discard(), context.Canceled)
	require.Empty(t, to.all)
	_, err := w.Add(Data, Hash{}, []byte("x"))
	require.ErrorIs(t, err, context.Canceled)
}

// What no reader would accept is not written.
func TestAddIsBounded(t *testing.T) {
	t.Parallel()
	w := NewWriter(t.Context(), &bucket{}, "packs/", formats()["plain"], nil)
	for kind, n := range map[Kind]int{Data: MaxData + 1, Segment: MaxData + 1, Root: MaxRoot + 1} {
		_, err := w.Add(kind, Hash{}, make([]byte, n))
		require.Error(t, err)
	}
	_, err := w.Add(Data, Hash{}, nil)
	require.Error(t, err)
	require.NoError(t, w.Flush())
	_, n := w.Stored()
	require.Zero(t, n)
}
