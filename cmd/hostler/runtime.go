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
// the Docker engine, and nothing else by accident: a server without isolation
// must be asked for, and so must one that fills the cluster it happens to run
// in.
func openRuntime(ctx context.Context, c serveConfig, id identity, checkLease func() error, log *slog.Logger) (backend, error) {
	if c.runtime == "kubernetes" {
		return openKubernetes(ctx, c, id, checkLease, log)
	}
	shim, err := findShim(c.shim)
	if err != nil {
		return nil, err
	}
	if c.runtime == "process" {
		log.Warn("the process runtime isolates nothing: every tenant's program runs as this user, on this machine; use it for trying only")
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
			return nil, errors.Join(fmt.Errorf("no container engine was found: %w; "+
				"start Docker, set DOCKER_HOST, or try Hostler without isolation with --runtime process", err), rt.Close())
		}
		log.Error("the container engine does not answer; serving all the same, and trying again", "error", err)
	}
	return rt, nil
}

// openKubernetes needs no shim on this machine: the nodes get it from an image.
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
		log.Error("the cluster does not answer; serving all the same, and trying again", "error", err)
	}
	return rt, nil
}

// findShim finds the program that goes into containers: where the
// configuration says, or beside this one.
func findShim(path string) (string, error) {
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find hostler-shim: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), "hostler-shim")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find hostler-shim: %w; put it beside hostler, or say where it is with --shim", err)
	}
	return path, nil
}
