package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/runtime/shim"
)

// roleCopyHelper marks a container that is never started: it only provides its
// mounts for the engine's copying in and out.
const roleCopyHelper = "carrier"

// copyHelperMaxAge is the age at which a copy helper must be one that a killed
// Hostler left.
const copyHelperMaxAge = 10 * time.Minute

// ensureShimVolume ensures that the volume with our shim exists and is complete.
// It costs one request if the volume is the one that was checked before.
func (r *Runtime) ensureShimVolume(ctx context.Context, image string) error {
	r.shimMu.Lock()
	defer r.shimMu.Unlock()
	if createdAt, err := r.shimVolumeCreatedAt(ctx); err != nil || createdAt != "" && createdAt == r.shimVolumeCreated {
		return err
	}
	if err := r.sweepCopyHelpers(ctx, copyHelperMaxAge); err != nil {
		return err
	}
	if err := r.populateShimVolume(ctx, image); err != nil {
		return fmt.Errorf("create the volume %s: %w", r.shim.volume(), err)
	}
	createdAt, err := r.shimVolumeCreatedAt(ctx)
	r.shimVolumeCreated = createdAt
	return err
}

// shimVolumeCreatedAt returns when the volume was created, to distinguish it from
// a later one of that name; empty if it does not exist.
func (r *Runtime) shimVolumeCreatedAt(ctx context.Context) (string, error) {
	v, err := r.api.VolumeInspect(ctx, r.shim.volume())
	if cerrdefs.IsNotFound(err) {
		return "", nil
	}
	return v.CreatedAt, r.apiError(ctx, err)
}

// copyShimAttempts is how often the shim is copied. A copy fails if another server
// that starts on this engine copies it at the same moment.
const copyShimAttempts = 5

// populateShimVolume copies the shim into the volume, unless it is there already.
func (r *Runtime) populateShimVolume(ctx context.Context, image string) error {
	id, err := r.createCopyHelper(ctx, image)
	if err != nil {
		return err
	}
	// The copy helper is not needed any more, whatever happened to the context.
	defer r.removeCopyHelper(context.WithoutCancel(ctx), id)
	complete, err := r.isShimComplete(ctx, id)
	retries := backoff.Policy{Min: 100 * time.Millisecond, Max: time.Second, Jitter: 0.5}.Retries()
	for attempt := 1; err == nil && !complete; attempt++ {
		failure := r.copyShim(ctx, id)
		complete, err = r.isShimComplete(ctx, id)
		if err == nil && !complete {
			if attempt == copyShimAttempts {
				return cmp.Or(failure, errors.New("the engine did not store what it received"))
			}
			err = retries.Sleep(ctx)
		}
	}
	return err
}

func (r *Runtime) copyShim(ctx context.Context, helperID string) error {
	archive, err := shimArchive(r.shim.content)
	if err != nil {
		return err
	}
	return r.apiError(ctx, r.api.CopyToContainer(ctx, helperID, "/", archive, container.CopyToContainerOptions{}))
}

func (r *Runtime) createCopyHelper(ctx context.Context, image string) (string, error) {
	created, err := r.api.ContainerCreate(ctx,
		&container.Config{
			Image: image, Entrypoint: []string{shim.BinaryPath},
			Labels: r.labels(map[string]string{labelRole: roleCopyHelper}),
		},
		&container.HostConfig{
			NetworkMode: "none",
			Mounts: []mount.Mount{{
				Type: mount.TypeVolume, Source: r.shim.volume(), Target: shim.Mount,
				VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: r.labels(nil)},
			}},
		},
		nil, nil, "hostler-carrier-"+rand.Text())
	return created.ID, r.createError(ctx, err)
}

// removeCopyHelper removes a copy helper. What it cannot remove is left to
// sweepCopyHelpers.
func (r *Runtime) removeCopyHelper(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	_ = r.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
}

// sweepCopyHelpers removes copy helpers that are older than age: those that a
// killed Hostler left.
func (r *Runtime) sweepCopyHelpers(ctx context.Context, age time.Duration) error {
	found, err := r.api.ContainerList(ctx, container.ListOptions{
		All: true, Filters: r.instanceFilter(labelRole + "=" + roleCopyHelper)})
	if err != nil {
		return r.apiError(ctx, err)
	}
	for _, c := range found {
		if time.Since(time.Unix(c.Created, 0)) >= age {
			r.removeCopyHelper(ctx, c.ID)
		}
	}
	return nil
}

// volumeDirMode is the mode of the directories in the volume that containers share:
// no process in a container can list, lock or watch them, and so send anything to
// another container.
const volumeDirMode = 0o111

// isShimComplete reports whether the volume holds the shim, byte for byte, and its
// copy for the container's processes, in directories that none of these can open.
func (r *Runtime) isShimComplete(ctx context.Context, helperID string) (bool, error) {
	for _, dir := range []string{shim.Mount, shim.BinDir} {
		stat, err := r.api.ContainerStatPath(ctx, helperID, dir)
		if cerrdefs.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, r.apiError(ctx, err)
		}
		if stat.Mode.Perm() != volumeDirMode {
			return false, nil
		}
	}
	complete, err := r.hasShim(ctx, helperID, shim.BinaryPath, shim.FileMode)
	if err != nil || !complete {
		return false, err
	}
	return r.hasShim(ctx, helperID, shim.AskBinaryPath, shim.AskFileMode)
}

// hasShim reports whether the volume holds the program at a path with a mode.
func (r *Runtime) hasShim(ctx context.Context, helperID, path string, mode fs.FileMode) (bool, error) {
	content, _, err := r.api.CopyFromContainer(ctx, helperID, path)
	if cerrdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, r.apiError(ctx, err)
	}
	defer content.Close()
	files := tar.NewReader(content)
	header, err := files.Next()
	if err != nil {
		return false, fmt.Errorf("read the shim back: %w", err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, files); err != nil {
		return false, fmt.Errorf("read the shim back: %w", r.apiError(ctx, err))
	}
	return header.FileInfo().Mode().Perm() == mode && hex.EncodeToString(sum.Sum(nil)) == r.shim.hash, nil
}

// shimArchive returns what is mounted at shim.Mount, as an archive for the root: the
// mount points of shim.RunDir and shim.StateDir, whose mode some engines apply to
// what they mount there, and the program and its copy for the container's processes,
// each under a temporary name and then a link of the final name. The engine creates
// the link to the program last, so that both are either missing or complete, however
// many servers fill the volume concurrently and wherever one of them is killed.
func shimArchive(content []byte) (io.Reader, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	bin, run, state := inRoot(shim.BinDir), inRoot(shim.RunDir), inRoot(shim.StateDir)
	err := errors.Join(
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: inRoot(shim.Mount) + "/", Mode: volumeDirMode}),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: bin + "/", Mode: volumeDirMode}),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: run + "/", Mode: 0o700}),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: state + "/", Mode: 0o700}))
	for _, file := range []struct {
		name string
		mode int64
	}{{shim.AskBinaryName, shim.AskFileMode}, {shim.BinaryName, shim.FileMode}} {
		part := path.Join(bin, "part-"+rand.Text())
		err = errors.Join(err,
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: part, Mode: file.mode, Size: int64(len(content))}),
			errOnly(w.Write(content)),
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: path.Join(bin, file.name), Linkname: part, Mode: file.mode}))
	}
	err = errors.Join(err, w.Close())
	if err != nil {
		return nil, fmt.Errorf("pack the shim: %w", err)
	}
	return &buf, nil
}

// inRoot returns the path of p in an archive that is unpacked in the root: the engine
// does not change the mode of the directory itself in which it unpacks.
func inRoot(p string) string { return strings.TrimPrefix(p, "/") }

func errOnly(_ int, err error) error { return err }
