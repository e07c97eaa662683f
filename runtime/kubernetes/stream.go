package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// maxStderr bounds what is kept of a program's stderr, in bytes.
const maxStderr = 16 << 10

// stream is one of our own programs that the kubelet runs in a container: Write
// writes to its stdin, Read reads its stdout.
type stream struct {
	r      *Runtime
	id     string // of the container
	in     *io.PipeWriter
	out    *io.PipeReader
	stderr headBuffer
	cancel context.CancelFunc
	done   chan struct{} // closed when err is set
	err    error         // how the program ended
}

// startProgram starts one of our programs in a container, as root. A failed start
// is reported by the end of the stream, as are all errors of the cluster.
func (r *Runtime) startProgram(id string, args ...string) (*stream, error) {
	executor, err := r.executor(podName(id), args)
	if err != nil {
		return nil, err
	}
	// A program outlives the call that starts it: Close of its stream ends it.
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), r.log))
	inReader, in := io.Pipe()
	out, outWriter := io.Pipe()
	s := &stream{
		r: r, id: id, in: in, out: out, cancel: cancel, done: make(chan struct{}),
		stderr: headBuffer{limit: maxStderr},
	}
	// The goroutine ends with the program, with the connection, or by Close.
	go func() {
		s.err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{
			Stdin: inReader, Stdout: smallBufWriter{outWriter, 4 << 10}, Stderr: smallBufWriter{&s.stderr, 512}})
		close(s.done)
		outWriter.Close()
		// A writer may fail before a reader: it gets the cluster's error too.
		inReader.CloseWithError(errors.Join(io.ErrClosedPipe, s.err))
		cancel()
	}()
	return s, nil
}

// executor uses WebSocket and, for a server or behind a proxy that does not
// support it, SPDY. An executor can run one program.
func (r *Runtime) executor(pod string, args []string) (remotecommand.Executor, error) {
	target := r.execURL(pod, args)
	websocket, err := remotecommand.NewWebSocketExecutor(r.config, "GET", target.String())
	if err != nil {
		return nil, fmt.Errorf("prepare to run a program: %w", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(r.config, "POST", target)
	if err != nil {
		return nil, fmt.Errorf("prepare to run a program: %w", err)
	}
	return remotecommand.NewFallbackExecutor(websocket, spdy, needsFallback)
}

// needsFallback reports whether the other protocol may succeed. Some servers
// answer 403 to the GET, because they allow their users to create an exec and
// not to get one. Both protocols report a missing pod, and the second one's error
// is clearer.
func needsFallback(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) || apierrors.IsForbidden(err)
}

func (s *stream) Read(p []byte) (int, error)  { return s.out.Read(p) }
func (s *stream) Write(p []byte) (int, error) { return s.in.Write(p) }

// Close closes the connection to the program, which may keep running.
func (s *stream) Close() error {
	s.cancel()
	s.in.Close()
	return s.out.Close()
}

// Result returns how the program ended, after its output has ended, and its
// stderr. An end without a status may be a success: SPDY, which is the protocol
// to the node in any case, has no other sign of success.
func (s *stream) Result(ctx context.Context) (string, error) {
	select {
	case <-s.done:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	printed := s.stderr.text()
	if s.err == nil {
		return printed, nil
	}
	code, exited := errors.AsType[exec.CodeExitError](s.err)
	if exited && printed != "" {
		return printed, shim.ToolError(code.Code, printed)
	}
	return printed, s.r.explainExit(ctx, s.id, s.err)
}

// explainExit explains why a program that should run does not: usually because
// its container does not either. On a hijacked connection an error has lost its
// kind, so the pod is inspected. A program that was ended, or that its node could
// not start, is due to the container. A node that was not reached, or a broken
// connection, is not.
func (r *Runtime) explainExit(ctx context.Context, id string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	pod, lookupErr := r.lookup(ctx, id)
	_, exited := errors.AsType[exec.CodeExitError](err)
	switch {
	case lookupErr != nil:
		return errors.Join(lookupErr, err)
	case stateOf(pod) != runtime.Running || isContainerGone(err):
		return fmt.Errorf("%w: %w", runtime.ErrNotRunning, err)
	case (exited || isNodeExecError(err)) && !isNodeLost(pod):
		return fmt.Errorf("%w: %w", runtime.ErrUnresponsive, err)
	}
	return fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
}

// isNodeExecError reports whether the node's container runtime tried to start the
// program and could not, as in a container at its process limit. The error for a
// node that was not reached is different.
func isNodeExecError(err error) bool {
	return strings.Contains(err.Error(), "error executing command in container")
}

// isNodeLost reports whether the pod's node has ceased to report, so that the
// pod's status is outdated. The cluster takes at least 40 s to notice. Nothing in
// the container can influence it: it has no readiness probe. A node that reports a pod
// as not ready, as for a readiness gate or another container, gives a reason, which the
// cluster does not.
func isNodeLost(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && c.Reason == ""
	})
}

// isContainerGone reports whether the node's container runtime already knows that
// the container has exited. The API server learns it up to a second later.
func isContainerGone(err error) bool {
	text := err.Error()
	return strings.Contains(text, "container not found") || strings.Contains(text, "CONTAINER_EXITED") ||
		strings.Contains(text, "cannot exec in a stopped")
}

// lookupRunning returns the pod of a container in which commands can run. One
// that was started again is running for the kubelet: its shim reports that the
// main process is not.
func (r *Runtime) lookupRunning(ctx context.Context, id string) (*corev1.Pod, error) {
	pod, err := r.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	if l := historyOf(pod); !l.running || hasEnded(pod) {
		return nil, fmt.Errorf("%w: it is %s", runtime.ErrNotRunning, stateOf(pod))
	}
	return pod, nil
}

// bridge is the stream of a session. If it was never established, it reports the
// error of the bridge or the cluster instead of a bare EOF. Later an EOF is
// returned as it is: a caller that needs the cause requests it, and not for each
// of a thousand sessions that disconnect together.
type bridge struct {
	*stream
	started atomic.Bool // something was read
}

func (b *bridge) Read(p []byte) (int, error) {
	n, err := b.out.Read(p)
	if n > 0 {
		b.started.Store(true)
	}
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	if err := b.startError(); err != nil {
		return 0, err
	}
	return 0, errors.New("the session's bridge ended")
}

func (b *bridge) Write(p []byte) (int, error) {
	n, err := b.in.Write(p)
	if err != nil {
		err = errors.Join(b.startError(), err)
	}
	return n, err
}

// startError returns why the bridge was never established; nil if it was.
func (b *bridge) startError() error {
	if b.started.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	_, err := b.Result(ctx)
	return err
}

// smallBufWriter is a writer that is copied to with a small buffer. By default
// each of an idle session's streams would hold one of 32 kB.
type smallBufWriter struct {
	io.Writer
	buffer int
}

func (s smallBufWriter) ReadFrom(source io.Reader) (int64, error) {
	type onlyWriter struct{ io.Writer }
	return io.CopyBuffer(onlyWriter{s.Writer}, source, make([]byte, s.buffer))
}

// headBuffer keeps the first limit bytes of what is written to it.
type headBuffer struct {
	limit int

	mu   sync.Mutex // guards kept
	data []byte
}

func (f *headBuffer) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data = append(f.data, p[:min(len(p), f.limit-len(f.data))]...)
	return len(p), nil
}

func (f *headBuffer) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.data)
}
