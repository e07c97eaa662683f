package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// maxStderr is how much a program of ours can say about its failure.
const maxStderr = 16 << 10

// stream is one of our own programs that the kubelet runs in a container: what
// is written goes to its stdin, what is read comes from its stdout.
type stream struct {
	r      *Runtime
	id     string // of the container
	in     *io.PipeWriter
	out    *io.PipeReader
	stderr headBuffer
	cancel context.CancelFunc
	done   chan struct{} // closed when err is there
	err    error         // how the program ended
}

// startProgram starts one of our programs in a container, as root. That it could not be
// started is told by its end, as is all that the cluster has to say.
func (r *Runtime) startProgram(id string, args ...string) (*stream, error) {
	executor, err := r.executor(podName(id), args)
	if err != nil {
		return nil, err
	}
	// A program outlives the call that starts it: its stream is closed.
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
		// Who writes may be told before who reads: in the cluster's words too.
		inReader.CloseWithError(errors.Join(io.ErrClosedPipe, s.err))
		cancel()
	}()
	return s, nil
}

// executor speaks WebSocket and, to a server or past a proxy that does not,
// SPDY. One is good for one program.
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

// needsFallback says whether the other protocol may do better. Some servers answer
// 403 to the GET, for they allow their users to create an exec and not to get
// one. That the pod is not there is told by both, and the second one's word is
// the plainer.
func needsFallback(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) || apierrors.IsForbidden(err)
}

func (s *stream) Read(p []byte) (int, error)  { return s.out.Read(p) }
func (s *stream) Write(p []byte) (int, error) { return s.in.Write(p) }

// Close gives up on the program, which may run on.
func (s *stream) Close() error {
	s.cancel()
	s.in.Close()
	return s.out.Close()
}

// Result is how the program ended, after its output did, and what it said. An
// end that the cluster does not know may be none that it reports: SPDY, which
// is spoken to the node in any case, has no other sign of success.
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

// explainExit explains why a program that should run does not: mostly, because
// its container does not either. Behind a connection that was to be taken over
// an error has lost its kind, so the pod is asked. That the program was ended,
// or could not be started by its node, is the container's doing; that its node
// was not reached, or the connection broke, is not.
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

// isNodeExecError reports whether the node's container runtime was asked to start the
// program and could not, as when a container has no room for another process.
// That the node was not reached reads otherwise.
func isNodeExecError(err error) bool {
	return strings.Contains(err.Error(), "error executing command in container")
}

// isNodeLost reports whether the pod's node has ceased to report, so that what
// the cluster says of the pod is of the past. The cluster takes 40 s and more to
// notice. Nothing in the container has a say in it: it has no readiness probe.
func isNodeLost(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status != corev1.ConditionTrue
		}
	}
	return false
}

// isContainerGone says whether the node's container runtime knows already that
// the container has ended. The API server learns it up to a second later.
func isContainerGone(err error) bool {
	text := err.Error()
	return strings.Contains(text, "container not found") || strings.Contains(text, "CONTAINER_EXITED") ||
		strings.Contains(text, "cannot exec in a stopped")
}

// lookupRunning finds the pod of a container that commands can be run in. One that
// was started again runs as far as the kubelet can see: its shim says that the
// main process does not.
func (r *Runtime) lookupRunning(ctx context.Context, id string) (*corev1.Pod, error) {
	pod, err := r.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	if l := historyOf(pod); !l.running || isTerminal(pod) {
		return nil, fmt.Errorf("%w: it is %s", runtime.ErrNotRunning, stateOf(pod))
	}
	return pod, nil
}

// bridge is the stream of a session. When it never came about it reports what
// the bridge or the cluster had to say, instead of a bare end. Later an end is
// an end: whoever needs to know more asks, and not for each of a thousand
// sessions that break off together.
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

// startError is why the bridge never came about; nil if it did.
func (b *bridge) startError() error {
	if b.started.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	_, err := b.Result(ctx)
	return err
}

// smallBufWriter is a writer that is copied to by way of a small buffer. Left to itself,
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
