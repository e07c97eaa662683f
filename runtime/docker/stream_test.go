package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// packet returns a write in the engine's format.
func packet(stream byte, content string) string {
	header := make([]byte, packetHeader)
	header[0] = stream
	binary.BigEndian.PutUint32(header[4:], uint32(len(content)))
	return string(header) + content
}

// However the stream is split, stdout is complete and separate from stderr; an
// EOF within a packet is an error.
func TestDemux(t *testing.T) {
	whole := packet(1, "one ") + packet(2, "err") + packet(1, "") + packet(1, "two") + packet(2, "or")
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "by bytes": iotest.OneByteReader,
		"by halves": iotest.HalfReader, "end with data": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			d := demux{from: bufio.NewReader(cut(strings.NewReader(whole)))}
			out, err := io.ReadAll(&d)
			require.NoError(t, err)
			require.Equal(t, "one two", string(out))
			require.Equal(t, "error", d.stderr.String())
		})
	}
	ends := map[int]bool{0: true}
	for i, rest := 0, whole; len(rest) > 0; {
		size := packetHeader + int(binary.BigEndian.Uint32([]byte(rest[4:])))
		i, rest = i+size, rest[size:]
		ends[i] = true
	}
	for n := range len(whole) {
		d := demux{from: bufio.NewReader(strings.NewReader(whole[:n]))}
		_, err := io.ReadAll(&d)
		require.Equal(t, ends[n], err == nil, "cut after %d bytes: %v", n, err)
	}
}

// Of endless stderr the beginning is kept, and an unknown packet ends the stream.
func TestDemuxBounds(t *testing.T) {
	d := demux{from: bufio.NewReader(strings.NewReader(
		strings.Repeat(packet(2, strings.Repeat("x", 1000)), 1000) + packet(1, "out")))}
	out, err := io.ReadAll(&d)
	require.NoError(t, err)
	require.Equal(t, "out", string(out))
	require.Equal(t, maxStderr, d.stderr.Len())
	d = demux{from: bufio.NewReader(strings.NewReader(packet(7, "x")))}
	_, err = io.ReadAll(&d)
	require.ErrorIs(t, err, runtime.ErrUnavailable)
}

// Whatever an engine sends, reading it ends, and returns no more than was sent.
func FuzzDemux(f *testing.F) {
	f.Add([]byte(packet(1, "one") + packet(2, "two")))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xffx"))
	f.Add([]byte("OCI runtime exec failed"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		d := demux{from: bufio.NewReader(bytes.NewReader(sent))}
		out, err := io.ReadAll(&d)
		if len(out)+d.stderr.Len() > len(sent) {
			t.Fatalf("read %d and %d bytes of %d", len(out), d.stderr.Len(), len(sent))
		}
		if err == nil && d.remaining != 0 {
			t.Fatalf("an EOF within a packet is not an error")
		}
	})
}
