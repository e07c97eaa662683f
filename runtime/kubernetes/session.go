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

// dial runs the shim's bridge in the container and talks to it.
func (r *Runtime) dial(ctx context.Context, id string) (io.ReadWriteCloser, int, error) {
	_, version, err := r.lookupCompatible(ctx, id)
	if err != nil {
		if errors.Is(err, runtime.ErrNotFound) {
			r.sessions.Remove(id) // a container that vanished leaves no session behind
		}
		return nil, 0, err
	}
	s, err := r.startProgram(id, shim.BinaryPath, "connect")
	if err != nil {
		return nil, 0, err
	}
	return &bridge{stream: s}, version, nil
}

// lookupCompatible is running for a container whose program this server speaks to, with
// the version that its record has.
func (r *Runtime) lookupCompatible(ctx context.Context, id string) (*corev1.Pod, int, error) {
	pod, err := r.lookupRunning(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	version, err := shim.Protocols().Parse(pod.Annotations[annotationProtocol])
	return pod, version, err
}

// checkRunning is nil when the cluster reports the container as running, and its
// node reports at all.
func (r *Runtime) checkRunning(ctx context.Context, id string) error {
	pod, err := r.lookupRunning(ctx, id)
	if err == nil && isNodeLost(pod) {
		return fmt.Errorf("%w: its node %s does not report it as ready", runtime.ErrUnavailable, pod.Spec.NodeName)
	}
	return err
}

// Exec is runtime.Execer.Exec. On an open session it asks nothing of the
// cluster.
func (r *Runtime) Exec(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	result, err := r.sessions.Get(id).Exec(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("run a command in the container %s: %w", id, err)
	}
	return result, nil
}

// WaitResult is runtime.Execer.Outcome.
func (r *Runtime) WaitResult(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	result, err := r.sessions.Get(id).WaitResult(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("ask the container %s for an outcome: %w", id, err)
	}
	return result, nil
}

// RecordBaseline is runtime.Recycler.RecordBaseline. The cluster does not tell what has changed in
// a container; the shim looks for itself.
func (r *Runtime) RecordBaseline(ctx context.Context, id string, fence int64) error {
	if err := r.sessions.Get(id).RecordBaseline(ctx, fence, nil); err != nil {
		return fmt.Errorf("seal the container %s: %w", id, err)
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

// LastModified is runtime.Files.Changed.
func (r *Runtime) LastModified(ctx context.Context, id string, dirs []string) (time.Time, error) {
	at, err := r.sessions.Get(id).LastModified(ctx, dirs)
	if err != nil {
		return at, fmt.Errorf("look for changes in the container %s: %w", id, err)
	}
	return at, nil
}
