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

// stderrKept is how much a program of ours can say about its failure.
const stderrKept = 16 << 10

// stream is one of our own programs that the kubelet runs in a container: what
// is written goes to its stdin, what is read comes from its stdout.
type stream struct {
	r      *Runtime
	id     string // of the container
	in     *io.PipeWriter
	out    *io.PipeReader
	stderr firstBytes
	cancel context.CancelFunc
	over   chan struct{} // closed when err is there
	err    error         // how the program ended
}

// run starts one of our programs in a container, as root. That it could not be
// started is told by its end, as is all that the cluster has to say.
func (r *Runtime) run(id string, args ...string) (*stream, error) {
	executor, err := r.executor(podName(id), args)
	if err != nil {
		return nil, err
	}
	// A program outlives the call that starts it: its stream is closed.
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), r.log))
	inReader, in := io.Pipe()
	out, outWriter := io.Pipe()
	s := &stream{
		r: r, id: id, in: in, out: out, cancel: cancel, over: make(chan struct{}),
		stderr: firstBytes{limit: stderrKept},
	}
	// The goroutine ends with the program, with the connection, or by Close.
	go func() {
		s.err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{
			Stdin: inReader, Stdout: slim{outWriter, 4 << 10}, Stderr: slim{&s.stderr, 512}})
		close(s.over)
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
	modern, err := remotecommand.NewWebSocketExecutor(r.config, "GET", target.String())
	if err != nil {
		return nil, fmt.Errorf("prepare to run a program: %w", err)
	}
	old, err := remotecommand.NewSPDYExecutor(r.config, "POST", target)
	if err != nil {
		return nil, fmt.Errorf("prepare to run a program: %w", err)
	}
	return remotecommand.NewFallbackExecutor(modern, old, fallBack)
}

// fallBack says whether the other protocol may do better. Some servers answer
// 403 to the GET, for they allow their users to create an exec and not to get
// one. That the pod is not there is told by both, and the second one's word is
// the plainer.
func fallBack(err error) bool {
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
	case <-s.over:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	said := s.stderr.text()
	if s.err == nil {
		return said, nil
	}
	code, exited := errors.AsType[exec.CodeExitError](s.err)
	if exited && said != "" {
		return said, shim.ToolError(code.Code, said)
	}
	return said, s.r.brokenOff(ctx, s.id, s.err)
}

// brokenOff explains why a program that should run does not: mostly, because
// its container does not either. Behind a connection that was to be taken over
// an error has lost its kind, so the pod is asked. That the program was ended,
// or could not be started by its node, is the container's doing; that its node
// was not reached, or the connection broke, is not.
func (r *Runtime) brokenOff(ctx context.Context, id string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	pod, findErr := r.find(ctx, id)
	_, exited := errors.AsType[exec.CodeExitError](err)
	switch {
	case findErr != nil:
		return errors.Join(findErr, err)
	case stateOf(pod) != runtime.Running || containerGone(err):
		return fmt.Errorf("%w: %w", runtime.ErrNotRunning, err)
	case (exited || nodeTried(err)) && !unreported(pod):
		return fmt.Errorf("%w: %w", runtime.ErrUnresponsive, err)
	}
	return fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
}

// nodeTried reports whether the node's container runtime was asked to start the
// program and could not, as when a container has no room for another process.
// That the node was not reached reads otherwise.
func nodeTried(err error) bool {
	return strings.Contains(err.Error(), "error executing command in container")
}

// unreported reports whether the pod's node has ceased to report, so that what
// the cluster says of the pod is of the past. The cluster takes 40 s and more to
// notice. Nothing in the container has a say in it: it has no readiness probe.
func unreported(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status != corev1.ConditionTrue
		}
	}
	return false
}

// containerGone says whether the node's container runtime knows already that
// the container has ended. The API server learns it up to a second later.
func containerGone(err error) bool {
	text := err.Error()
	return strings.Contains(text, "container not found") || strings.Contains(text, "CONTAINER_EXITED") ||
		strings.Contains(text, "cannot exec in a stopped")
}

// running finds the pod of a container that commands can be run in. One that
// was started again runs as far as the kubelet can see: its shim says that the
// main process does not.
func (r *Runtime) running(ctx context.Context, id string) (*corev1.Pod, error) {
	pod, err := r.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if l := lifeOf(pod); !l.running || over(pod) {
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
	begun atomic.Bool // something was read
}

func (b *bridge) Read(p []byte) (int, error) {
	n, err := b.out.Read(p)
	if n > 0 {
		b.begun.Store(true)
	}
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	if err := b.failure(); err != nil {
		return 0, err
	}
	return 0, errors.New("the session's bridge ended")
}

func (b *bridge) Write(p []byte) (int, error) {
	n, err := b.in.Write(p)
	if err != nil {
		err = errors.Join(b.failure(), err)
	}
	return n, err
}

// failure is why the bridge never came about; nil if it did.
func (b *bridge) failure() error {
	if b.begun.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := b.Result(ctx)
	return err
}

// slim is a writer that is copied to by way of a small buffer. Left to itself,
// each of an idle session's streams would hold one of 32 kB.
type slim struct {
	io.Writer
	buffer int
}

func (s slim) ReadFrom(source io.Reader) (int64, error) {
	type onlyWriter struct{ io.Writer }
	return io.CopyBuffer(onlyWriter{s.Writer}, source, make([]byte, s.buffer))
}

// firstBytes keeps the first limit bytes of what is written to it.
type firstBytes struct {
	limit int

	mu   sync.Mutex // guards kept
	kept []byte
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = append(f.kept, p[:min(len(p), f.limit-len(f.kept))]...)
	return len(p), nil
}

func (f *firstBytes) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.kept)
}
