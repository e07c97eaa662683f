package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// listPageSize bounds one page of the server's response.
const listPageSize = 500

// Protocols is runtime.Observer.Protocols.
func (r *Runtime) Protocols() runtime.Protocols { return shim.Protocols() }

// Status is runtime.Observer.Status.
func (r *Runtime) Status(ctx context.Context, id string) (runtime.Status, error) {
	pod, err := r.lookup(ctx, id)
	if err != nil {
		return runtime.Status{}, fmt.Errorf("inspect the container %s: %w", id, err)
	}
	return statusOf(pod), nil
}

// List is runtime.Observer.List.
func (r *Runtime) List(ctx context.Context) ([]runtime.Status, error) {
	all := []runtime.Status{}
	for page := ""; ; {
		found, err := r.pods.List(ctx, metav1.ListOptions{LabelSelector: r.instanceSelector(), Limit: listPageSize, Continue: page})
		if err != nil {
			return nil, fmt.Errorf("list the containers: %w", r.apiError(ctx, err))
		}
		for i := range found.Items {
			all = append(all, statusOf(&found.Items[i]))
		}
		if page = found.Continue; page == "" {
			return all, nil
		}
	}
}

// Logs is runtime.Observer.Logs.
func (r *Runtime) Logs(ctx context.Context, id string, since time.Time, tail int64) (io.ReadCloser, error) {
	text, err := r.logs(ctx, id, since, tail)
	if err != nil {
		return nil, fmt.Errorf("read the log of the container %s: %w", id, err)
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

func (r *Runtime) logs(ctx context.Context, id string, since time.Time, tail int64) ([]byte, error) {
	pod, err := r.lookup(ctx, id)
	if err != nil || tail <= 0 {
		return nil, err
	}
	if c := containerStatus(pod); c == nil || c.ContainerID == "" {
		return nil, nil // nothing has run that could have printed
	}
	// If the kubelet has started an exited container again, the shim waits and
	// prints nothing: the output of the main process is in the previous log.
	history := historyOf(pod)
	previous := history.running && history.exits > history.restarted
	options := corev1.PodLogOptions{Container: mainContainer, Previous: previous}
	text, err := r.readLog(ctx, pod.Name, options, time.Time{}, tail)
	if err != nil || since.IsZero() {
		return text, err
	}
	if rest, ok := shim.AfterLastWipe(shim.DeriveKey(r.secret, id), text); ok {
		return rest, nil
	}
	// The marks are above the tail or in an earlier log, or an older server has
	// wiped the container.
	return r.readLog(ctx, pod.Name, options, since, tail)
}

// readLog reads the last lines of a log, at most tail bytes of them.
func (r *Runtime) readLog(ctx context.Context, pod string, options corev1.PodLogOptions, since time.Time, tail int64) ([]byte, error) {
	// The server counts lines. That many lines hold at least that many bytes.
	options.TailLines = &tail
	if !since.IsZero() {
		// The server's times are in whole seconds: those of the lines are exact.
		options.SinceTime, options.Timestamps = &metav1.Time{Time: since.Truncate(time.Second)}, true
	}
	log, err := r.client.Get().Namespace(r.namespace).Resource("pods").Name(pod).SubResource("log").
		VersionedParams(&options, parameters).Stream(ctx)
	if options.Previous && apierrors.IsBadRequest(err) {
		return nil, nil // the node does not have it any more
	}
	if err != nil {
		return nil, r.apiError(ctx, err)
	}
	defer log.Close()
	buf := tailBuffer{limit: int(tail)}
	if since.IsZero() {
		_, err = io.Copy(&buf, log)
	} else {
		err = copySince(&buf, log, since)
	}
	if err != nil {
		return nil, r.apiError(ctx, err)
	}
	return buf.bytes(), nil
}

// copyTail copies the last lines of a log, of both streams.
func (r *Runtime) copyTail(ctx context.Context, id string, lines int64, to io.Writer) error {
	pod, err := r.lookup(ctx, id)
	if err != nil {
		return err
	}
	options := &corev1.PodLogOptions{Container: mainContainer, TailLines: &lines}
	log, err := r.client.Get().Namespace(r.namespace).Resource("pods").Name(pod.Name).SubResource("log").
		VersionedParams(options, parameters).Stream(ctx)
	if err != nil {
		return r.apiError(ctx, err)
	}
	defer log.Close()
	_, err = io.Copy(to, log)
	return r.apiError(ctx, err)
}

// copySince copies the lines of a log that were printed at that time or later,
// without the timestamps that they begin with. A line without one belongs to
// the line before it.
func copySince(to io.Writer, log io.Reader, since time.Time) error {
	lines := bufio.NewReader(log)
	shown, lineStart := false, true
	for {
		// A line may be longer than the buffer.
		part, err := lines.ReadSlice('\n')
		if lineStart {
			if stamp, text, ok := bytes.Cut(part, []byte(" ")); ok {
				if at, parseErr := time.Parse(time.RFC3339Nano, string(stamp)); parseErr == nil {
					shown, part = !at.Before(since), text
				}
			}
		}
		lineStart = !errors.Is(err, bufio.ErrBufferFull)
		if shown {
			if _, err := to.Write(part); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && lineStart {
			return err
		}
	}
}

// tailBuffer keeps the last limit bytes of what is written to it, in memory of
// at most twice that.
type tailBuffer struct {
	limit int
	data  []byte
}

func (l *tailBuffer) Write(p []byte) (int, error) {
	l.data = append(l.data, p[max(0, len(p)-l.limit):]...)
	if len(l.data) > 2*l.limit {
		l.data = append(l.data[:0], l.bytes()...)
	}
	return len(p), nil
}

func (l *tailBuffer) bytes() []byte { return l.data[max(0, len(l.data)-l.limit):] }
