package kubernetes

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/backend"
)

// dial runs the shim's bridge in the container and connects to it.
func (r *Runtime) dial(ctx context.Context, id string) (io.ReadWriteCloser, int, error) {
	_, version, err := r.lookupCompatible(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	s, err := r.startProgram(id, shim.BinaryPath, "connect")
	if err != nil {
		return nil, 0, err
	}
	return &bridge{stream: s}, version, nil
}

// lookupCompatible is lookupRunning for a container whose protocol this server
// supports. It also returns the version in the container's record. It notes if
// the container runs again after an exit and that is not recorded.
func (r *Runtime) lookupCompatible(ctx context.Context, id string) (*corev1.Pod, int, error) {
	pod, err := r.lookupRunning(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	if history := historyOf(pod); history.running && history.hasExited() {
		r.unrecorded.Store(id, history.exits)
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

// volumeMounts returns the mounts of a container in which files can be written.
func (r *Runtime) volumeMounts(ctx context.Context, id string) ([]backend.Mount, error) {
	pod, _, err := r.lookupCompatible(ctx, id)
	if err != nil {
		return nil, err
	}
	return mainMounts(pod), nil
}

func mainMounts(pod *corev1.Pod) []backend.Mount {
	var all []backend.Mount
	for _, c := range pod.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if c.Name == mainContainer {
				all = append(all, backend.Mount{Volume: m.Name, Target: m.MountPath, ReadOnly: m.ReadOnly})
			}
		}
	}
	return all
}
