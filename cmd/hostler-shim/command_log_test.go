package main

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// logModel is what an outputLog does, byte by byte.
type logModel struct {
	bytes   []byte // of all output
	streams []bool // of each byte: whether it is of stderr
	start   int
}

func (m *logModel) add(p []byte, stderr bool) {
	for _, b := range p {
		m.bytes, m.streams = append(m.bytes, b), append(m.streams, stderr)
	}
}

// requireSame asserts that the log has what the model has, from each of some offsets.
func (m *logModel) requireSame(t *testing.T, l *outputLog, random *rand.Rand) {
	t.Helper()
	require.EqualValues(t, m.start, l.start)
	require.EqualValues(t, len(m.bytes), l.end)
	at := m.start + random.IntN(len(m.bytes)-m.start+1)
	for at < len(m.bytes) {
		p := make([]byte, 1+random.IntN(40_000))
		n, stderr := l.read(int64(at), p)
		require.Positive(t, n)
		require.True(t, bytes.Equal(m.bytes[at:at+n], p[:n]), "the bytes at %d", at)
		require.False(t, slices.Contains(m.streams[at:at+n], !stderr), "the stream of the bytes at %d", at)
		at += n
	}
	n, _ := l.read(l.end, make([]byte, 1))
	require.Zero(t, n)
}

// The log has each byte that is not released, with its stream, and no more memory
// than that takes.
func TestOutputLogModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not a secret
		l, m := new(outputLog), new(logModel)
		for range 200 {
			switch random.IntN(3) {
			case 0:
				p := make([]byte, random.IntN(1+random.IntN(50_000)))
				for i := range p {
					p[i] = byte(random.Uint32())
				}
				stderr := random.IntN(3) == 0
				p = p[:min(len(p), l.room())]
				l.add(p, stderr)
				m.add(p, stderr)
			case 1:
				to := m.start + random.IntN(len(m.bytes)-m.start+1)
				l.release(int64(to))
				m.start = max(m.start, to)
			default:
				m.requireSame(t, l, random)
			}
			require.LessOrEqual(t, len(l.chunks), l.size()/logChunkSize+2)
			require.LessOrEqual(t, l.size(), runtime.CommandBuffer)
		}
		l.release(l.end)
		require.Empty(t, l.chunks)
		require.Empty(t, l.segments)
	}
}

// A command that changes between its streams with each byte is held back before its
// segments take more memory than its output may.
func TestOutputLogSegments(t *testing.T) {
	t.Parallel()
	var l outputLog
	for l.room() > 0 {
		l.add([]byte("x"), l.end%2 == 0)
	}
	require.Len(t, l.segments, maxLogSegments)
	l.release(1)
	require.Positive(t, l.room())
	require.Len(t, l.segments, maxLogSegments-1)
	l.release(0)
	require.EqualValues(t, 1, l.start, "what is released stays so")
}
