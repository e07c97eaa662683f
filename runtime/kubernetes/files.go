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

// untarArgs is our program that unpacks its stdin for a user; empty for whoever
// process 1 is.
func untarArgs(user, dir string) []string {
	return []string{shim.Path, "untar", "--user", user, "--", dir}
}

// tarArgs is our program that packs a folder.
func tarArgs(dir string) []string { return []string{shim.Path, "tar", "--", dir} }

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
	s, err := r.run(id, untarArgs(pod.Annotations[noteUser], writable(pod, dir))...)
	if err != nil {
		return err
	}
	return shim.Send(ctx, s, tar)
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
	files, err := r.getFiles(ctx, id, dir)
	if err != nil {
		return nil, fmt.Errorf("get the files in %s of the container %s: %w", dir, id, err)
	}
	return files, nil
}

func (r *Runtime) getFiles(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	if _, _, err := r.spoken(ctx, id); err != nil {
		return nil, err
	}
	s, err := r.run(id, tarArgs(dir)...)
	if err != nil {
		return nil, err
	}
	return shim.Receive(ctx, s)
}
