package shim

import (
	"context"
	"io"
	"net"
	"os"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkIdleSessions opens a thousand sessions whose other ends are in
// memory and reports what each idle session costs the server. The pipe that
// replaces the connection is included.
func BenchmarkIdleSessions(b *testing.B) {
	const count = 1000
	b.ReportAllocs()
	for b.Loop() {
		heap, stacks, goroutines := memoryInUse()
		sessions := make([]*Session, count)
		for i := range sessions {
			sessions[i] = newSession("c", Options{Secret: secret, Dial: dialIdlePeer})
			require.NoError(b, sessions[i].Open(b.Context()))
		}
		h, s, g := memoryInUse()
		b.ReportMetric(float64(h-heap)/count, "heap-B/session")
		b.ReportMetric(float64(s-stacks)/count, "stack-B/session")
		b.ReportMetric(float64(g-goroutines)/count, "goroutines/session")
		for _, s := range sessions {
			require.NoError(b, s.Close())
		}
	}
}

// dialIdlePeer is a Dial to a peer that completes the handshake and is silent
// after it.
func dialIdlePeer(context.Context, string) (io.ReadWriteCloser, int, error) {
	ours, theirs := net.Pipe()
	go func() { // ends with the handshake
		_, _ = ProgramHandshake(theirs, DeriveKey(secret, "c"), HandshakeReply{BootID: "a", Main: MainRunning})
	}()
	return ours, Version, nil
}

// memoryInUse returns the memory that the process uses after a garbage
// collection.
func memoryInUse() (heap, stacks int64, goroutines int) {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse), goruntime.NumGoroutine()
}

// BenchmarkStream sends bytes on a stream over a socket pair.
func BenchmarkStream(b *testing.B) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(b, err)
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	go func() { // ends with the connection
		channel, _ := ProgramHandshake(theirs, DeriveKey(secret, "c"), HandshakeReply{BootID: "a"})
		NewConn(theirs, channel, func(in *Incoming) error {
			go func() {
				_, _ = io.Copy(io.Discard, in.Stream(0))
				_ = in.Respond(Response{})
			}()
			return nil
		}, nil).Run()
	}()
	channel, _, err := ServerHandshake(ours, DeriveKey(secret, "c"), Version)
	require.NoError(b, err)
	server := NewConn(ours, channel, nil, nil)
	defer server.Close()
	go server.Run()
	out, err := server.Call(Request{Op: OpUntar, Streams: 1})
	require.NoError(b, err)
	buf := make([]byte, MaxData)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		_, err := out.Stream(0).Write(buf)
		require.NoError(b, err)
	}
	require.NoError(b, out.Stream(0).CloseWrite())
	<-out.events
}
