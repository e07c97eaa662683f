package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// down removes the cluster. Its logs are kept until the next one starts.
func (c cluster) down(ctx context.Context) error {
	begun := time.Now()
	if err := c.clean(ctx); err != nil {
		return err
	}
	c.logf("is down after %.2f s", time.Since(begun).Seconds())
	return nil
}

// clean kills and removes all parts of the cluster that exist, except its logs.
// It does not stop them gracefully, because their state is not needed. Each step
// can be repeated.
func (c cluster) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	l := c.layout
	sockets := shimSockets(l)
	killParts := func(ctx context.Context) error {
		return killAll(ctx, func(argv []string) bool { return isOurs(l, argv) })
	}
	for _, s := range []step{
		// Before the containers' processes, because the parts would start new ones.
		{"kill the parts", killParts},
		{"kill the pods", func(ctx context.Context) error { return removeCgroups(ctx, l) }},
		// A process that a part was starting had no command line yet.
		{"kill the remaining processes of the parts", killParts},
		{"restore the kernel's settings", func(context.Context) error { return restoreSettings(l) }},
		{"unmount", func(context.Context) error { return unmountAll(l) }},
		{"remove the network", func(ctx context.Context) error { return removeNetwork(ctx, l) }},
		{"remove files", func(context.Context) error { return removeFiles(l, sockets) }},
	} {
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// shimSockets returns the sockets of the containers' shims. They are in a
// directory that all containerds share, and only files in the shims' directories
// have their names.
func shimSockets(l layout) []string {
	var sockets []string
	files, _ := filepath.Glob(l.Path("run/containerd/io.containerd.runtime.v2.task/k8s.io/*/address"))
	for _, file := range files {
		address, err := os.ReadFile(file)
		if err != nil {
			continue // its container has just been removed
		}
		if socket, ok := strings.CutPrefix(string(address), "unix://"); ok {
			sockets = append(sockets, socket)
		}
	}
	return sockets
}

// removeFiles removes the content of the directory except the parts' logs, and
// the files that parts keep elsewhere.
func removeFiles(l layout, sockets []string) error {
	for _, socket := range sockets {
		_ = os.Remove(socket) // the shim may have done so
	}
	if err := removeLinks("/var/log/containers", l.dir+"/"); err != nil {
		return err
	}
	removeDeviceSocket("/var/lib/kubelet")
	entries, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == "log" || entry.Name() == lockFile {
			continue
		}
		if err := os.RemoveAll(l.Path(entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// removeLinks removes the links in a directory whose targets are below a prefix.
func removeLinks(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		target, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(target, prefix) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	removeIfEmpty(dir)
	return nil
}

// removeDeviceSocket removes the socket for device plugins, unless another
// kubelet uses it: every kubelet creates it at the same path.
func removeDeviceSocket(home string) {
	dir := filepath.Join(home, "device-plugins")
	socket := filepath.Join(dir, "kubelet.sock")
	conn, err := net.Dial("unix", socket)
	if err == nil {
		conn.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(socket) // if that fails, the directory stays
	}
	removeIfEmpty(dir, home)
}
