package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/kubernetes"
	"github.com/hostler/hostler/runtime/process"
)

// backends are the values of --runtime and how each is opened. With auto it is
// the Docker engine and never another: a server without isolation must be
// requested explicitly, and so must one that fills the cluster that it runs in.
var backends = map[string]func(ctx context.Context, c serveConfig, id identity, checkLease func() error, log *slog.Logger) (backend, error){
	"auto":       openDocker,
	"docker":     openDocker,
	"kubernetes": openKubernetes,
	"process":    openProcess,
}

// openRuntime opens the backend that the configuration names.
func openRuntime(ctx context.Context, c serveConfig, id identity, checkLease func() error, log *slog.Logger) (backend, error) {
	open, ok := backends[c.runtime]
	if !ok {
		return nil, fmt.Errorf("--runtime %q: there is no such backend", c.runtime)
	}
	return open(ctx, c, id, checkLease, log)
}

// openProcess opens the backend without isolation.
func openProcess(_ context.Context, c serveConfig, id identity, checkLease func() error, log *slog.Logger) (backend, error) {
	shim, err := findShim(c.shim)
	if err != nil {
		return nil, err
	}
	log.Warn("the process backend provides no isolation: every tenant's program runs as this user on this machine; use it for testing only")
	return process.New(process.Options{
		Dir: filepath.Join(c.data, "process"), ShimPath: shim, Secret: id.secret,
		UnresponsiveTimeout: c.unresponsive, MayChange: checkLease,
	})
}

// openDocker opens the Docker backend. An engine that is unavailable is an error
// with auto only: it may be found later.
func openDocker(ctx context.Context, c serveConfig, id identity, checkLease func() error, log *slog.Logger) (backend, error) {
	shim, err := findShim(c.shim)
	if err != nil {
		return nil, err
	}
	rt, err := docker.New(ctx, docker.Options{
		Instance: id.id, Secret: id.secret, ShimPath: shim, Profiles: c.profilesDir,
		UnresponsiveTimeout: c.unresponsive, MayChange: checkLease,
	})
	if err != nil {
		return nil, err
	}
	if err := rt.Ping(ctx); err != nil {
		if c.runtime == "auto" {
			return nil, errors.Join(fmt.Errorf("no container engine found: %w; "+
				"start Docker, set DOCKER_HOST, or try Hostler without isolation with --runtime process", err), rt.Close())
		}
		log.Error("container engine unavailable; serving and retrying", "error", err)
	}
	return rt, nil
}

// openKubernetes opens the Kubernetes backend. It needs no shim on this machine:
// the nodes get it from an image.
func openKubernetes(ctx context.Context, c serveConfig, id identity, checkLease func() error, log *slog.Logger) (backend, error) {
	rt, err := kubernetes.New(kubernetes.Options{
		Instance: id.id, Secret: id.secret, ShimImage: c.shimImage,
		Kubeconfig: c.kubeconfig, Namespace: c.namespace, NonRoot: c.nonRoot, Log: log,
		UnresponsiveTimeout: c.unresponsive, MayChange: checkLease,
	})
	if err != nil {
		return nil, err
	}
	if err := rt.Ping(ctx); err != nil {
		log.Error("cluster unavailable; serving and retrying", "error", err)
	}
	return rt, nil
}

// findShim returns the path of the program that is copied into containers: the
// configured one, or the one next to this program.
func findShim(path string) (string, error) {
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find hostler-shim: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), "hostler-shim")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find hostler-shim: %w; put it next to hostler, or name its path with --shim", err)
	}
	return path, nil
}
