package kubernetes

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/hostler/hostler/runtime/shim"
)

// PutFiles is runtime.Files.PutFiles.
func (r *Runtime) PutFiles(ctx context.Context, id, dir string, tar io.Reader) error {
	if err := r.putFiles(ctx, id, dir, tar); err != nil {
		return fmt.Errorf("put files into %s of the container %s: %w", dir, id, err)
	}
	return nil
}

func (r *Runtime) putFiles(ctx context.Context, id, dir string, tar io.Reader) error {
	pod, _, err := r.spoken(ctx, id)
	if err != nil {
		return err
	}
	return r.sessions.With(id).PutFiles(ctx, writable(pod, dir), tar)
}

// writable is where a folder can be written: itself, or, on a volume that the
// container may only read, the same folder where the volume is mounted aside.
func writable(pod *corev1.Pod, dir string) string {
	dir = path.Clean(dir)
	var on corev1.VolumeMount // what dir is on: the longest target above it
	elsewhere := make(map[string]string)
	for _, m := range mainMounts(pod) {
		target := path.Clean(m.MountPath)
		if strings.HasPrefix(target, shim.AsideDir+"/") {
			elsewhere[m.Name] = target
		} else if (dir == target || strings.HasPrefix(dir, target+"/")) && len(target) > len(on.MountPath) {
			on = m
		}
	}
	if other, ok := elsewhere[on.Name]; ok && on.ReadOnly {
		return other + strings.TrimPrefix(dir, path.Clean(on.MountPath))
	}
	return dir
}

func mainMounts(pod *corev1.Pod) []corev1.VolumeMount {
	for _, c := range pod.Spec.Containers {
		if c.Name == mainContainer {
			return c.VolumeMounts
		}
	}
	return nil
}

// GetFiles is runtime.Files.GetFiles.
func (r *Runtime) GetFiles(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	files, err := r.sessions.With(id).GetFiles(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("get the files in %s of the container %s: %w", dir, id, err)
	}
	return files, nil
}
