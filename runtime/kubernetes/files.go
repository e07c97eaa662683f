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

// CopyIn is runtime.Files.CopyIn.
func (r *Runtime) CopyIn(ctx context.Context, id, dir string, tar io.Reader) error {
	if err := r.copyIn(ctx, id, dir, tar); err != nil {
		return fmt.Errorf("copy files into %s of the container %s: %w", dir, id, err)
	}
	return nil
}

func (r *Runtime) copyIn(ctx context.Context, id, dir string, tar io.Reader) error {
	pod, _, err := r.lookupCompatible(ctx, id)
	if err != nil {
		return err
	}
	return r.sessions.Get(id).CopyIn(ctx, writablePath(pod, dir), tar)
}

// writablePath returns where a directory can be written: the directory itself,
// or, on a volume that is read-only in the container, the same directory in the
// writable mirror of the volume.
func writablePath(pod *corev1.Pod, dir string) string {
	dir = path.Clean(dir)
	var mnt corev1.VolumeMount // the mount that dir is on: the longest target above it
	mirrors := make(map[string]string)
	for _, m := range mainMounts(pod) {
		target := path.Clean(m.MountPath)
		if strings.HasPrefix(target, shim.WritableMirrorDir+"/") {
			mirrors[m.Name] = target
		} else if (dir == target || strings.HasPrefix(dir, target+"/")) && len(target) > len(mnt.MountPath) {
			mnt = m
		}
	}
	if mirror, ok := mirrors[mnt.Name]; ok && mnt.ReadOnly {
		return mirror + strings.TrimPrefix(dir, path.Clean(mnt.MountPath))
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

// CopyOut is runtime.Files.CopyOut.
func (r *Runtime) CopyOut(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	files, err := r.sessions.Get(id).CopyOut(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("copy files from %s of the container %s: %w", dir, id, err)
	}
	return files, nil
}
