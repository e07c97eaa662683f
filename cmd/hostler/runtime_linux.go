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

// openRuntime opens the backend that the configuration names. With auto it is
// the Docker engine and never another: a server without isolation must be
// requested explicitly, and so must one that fills the cluster that it runs in.
func openRuntime(ctx context.Context, c serveConfig, id identity, checkLease func() error, log *slog.Logger) (backend, error) {
	if c.runtime == "kubernetes" {
		return openKubernetes(ctx, c, id, checkLease, log)
	}
	shim, err := findShim(c.shim)
	if err != nil {
		return nil, err
	}
	if c.runtime == "process" {
		log.Warn("the process runtime provides no isolation: every tenant's program runs as this user on this machine; use it for testing only")
		return process.New(process.Options{
			Dir: filepath.Join(c.data, "process"), ShimPath: shim, Secret: id.secret,
			UnresponsiveTimeout: c.unresponsive, MayChange: checkLease,
		})
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
