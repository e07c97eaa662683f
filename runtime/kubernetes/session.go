package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// dial runs the shim's bridge in the container and connects to it.
func (r *Runtime) dial(ctx context.Context, id string) (io.ReadWriteCloser, int, error) {
	_, version, err := r.lookupCompatible(ctx, id)
	if err != nil {
		if errors.Is(err, runtime.ErrNotFound) {
			r.sessions.Remove(id) // a container that disappeared leaves no session
		}
		return nil, 0, err
	}
	s, err := r.startProgram(id, shim.BinaryPath, "connect")
	if err != nil {
		return nil, 0, err
	}
	return &bridge{stream: s}, version, nil
}

// lookupCompatible is lookupRunning for a container whose protocol this server
// supports. It also returns the version in the container's record.
func (r *Runtime) lookupCompatible(ctx context.Context, id string) (*corev1.Pod, int, error) {
	pod, err := r.lookupRunning(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	version, err := shim.Protocols().Parse(pod.Annotations[annotationProtocol])
	return pod, version, err
}

// checkRunning returns nil if the cluster reports the container as running and
// its node still reports at all.
func (r *Runtime) checkRunning(ctx context.Context, id string) error {
	pod, err := r.lookupRunning(ctx, id)
	if err == nil && isNodeLost(pod) {
		return fmt.Errorf("%w: its node %s does not report it as ready", runtime.ErrUnavailable, pod.Spec.NodeName)
	}
	return err
}

// Exec is runtime.Execer.Exec. On an open session it sends no request to the
// cluster.
func (r *Runtime) Exec(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	result, err := r.sessions.Get(id).Exec(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("run a command in the container %s: %w", id, err)
	}
	return result, nil
}

// WaitResult is runtime.Execer.WaitResult.
func (r *Runtime) WaitResult(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	result, err := r.sessions.Get(id).WaitResult(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("request an outcome from the container %s: %w", id, err)
	}
	return result, nil
}

// RecordBaseline is runtime.Recycler.RecordBaseline. The cluster does not report
// what has changed in a container; the shim scans it.
func (r *Runtime) RecordBaseline(ctx context.Context, id string, fence int64) error {
	if err := r.sessions.Get(id).RecordBaseline(ctx, fence, nil); err != nil {
		return fmt.Errorf("record the baseline of the container %s: %w", id, err)
	}
	return nil
}

// Wipe is runtime.Recycler.Wipe.
func (r *Runtime) Wipe(ctx context.Context, id string, fence int64) error {
	tail := func(ctx context.Context, lines int64, to io.Writer) error { return r.copyTail(ctx, id, lines, to) }
	if err := r.sessions.Get(id).WipeWithLogMarks(ctx, fence, tail); err != nil {
		return fmt.Errorf("wipe the container %s: %w", id, err)
	}
	return nil
}

// LastModified is runtime.Files.LastModified.
func (r *Runtime) LastModified(ctx context.Context, id string, dirs []string) (time.Time, error) {
	at, err := r.sessions.Get(id).LastModified(ctx, dirs)
	if err != nil {
		return at, fmt.Errorf("find the last change in the container %s: %w", id, err)
	}
	return at, nil
}
