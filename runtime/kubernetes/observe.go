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
	"github.com/hostler/hostler/runtime/shim/backend"
)

// listPageSize bounds one page of the server's response.
const listPageSize = 500

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

// copyLog copies the end of a log.
func (r *Runtime) copyLog(ctx context.Context, id string, part backend.LogPart, to io.Writer) error {
	pod, err := r.lookup(ctx, id)
	if err != nil || part.Lines == 0 {
		return err
	}
	if c := containerStatus(pod); c == nil || c.ContainerID == "" {
		return nil // nothing has run that could have printed
	}
	// If the kubelet has started an exited container again, the shim waits and
	// prints nothing: the output of the main process is in the previous log.
	history := historyOf(pod)
	options := &corev1.PodLogOptions{
		Container: mainContainer, TailLines: &part.Lines,
		Previous: !part.Current && history.running && history.hasExited(),
	}
	if !part.Since.IsZero() {
		// The server's times are in whole seconds: those of the lines are exact.
		options.SinceTime, options.Timestamps = &metav1.Time{Time: part.Since.Truncate(time.Second)}, true
	}
	log, err := r.client.Get().Namespace(r.namespace).Resource("pods").Name(pod.Name).SubResource("log").
		VersionedParams(options, parameters).Stream(ctx)
	if options.Previous && apierrors.IsBadRequest(err) {
		return nil // the node does not have it any more
	}
	if err != nil {
		return r.apiError(ctx, err)
	}
	defer log.Close()
	if part.Since.IsZero() {
		_, err = io.Copy(to, log)
	} else {
		err = copySince(to, log, part.Since)
	}
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
