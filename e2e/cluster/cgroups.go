package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroups returns the cluster's control groups: one in each hierarchy of version
// 1, or the only one of version 2.
func cgroups(l layout) ([]mount, error) {
	list, err := mounts()
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(m mount) bool { return m.kind != "cgroup" && m.kind != "cgroup2" })
	for i := range list {
		list[i].point = filepath.Join(list[i].point, l.Name())
	}
	return list, nil
}

// makeCgroups creates the group below which the kubelet puts its pods.
func makeCgroups(l layout) error {
	list, err := cgroups(l)
	if err != nil {
		return err
	}
	for _, m := range list {
		if m.kind == "cgroup2" {
			delegateControllers(filepath.Dir(m.point))
		}
		if err := os.MkdirAll(m.point, 0o755); err != nil {
			return fmt.Errorf("create a control group: %w", err)
		}
		if m.kind == "cgroup2" {
			delegateControllers(m.point)
		}
	}
	return nil
}

// delegateControllers enables every controller of a group for its children. It
// ignores errors, because the kubelet reports a missing controller.
func delegateControllers(group string) {
	controllers, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, name := range strings.Fields(string(controllers)) {
		_ = os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+name), 0o644)
	}
}

// removeCgroups kills all processes in pods and removes the pods' groups.
func removeCgroups(ctx context.Context, l layout) error {
	list, err := cgroups(l)
	if err != nil {
		return err
	}
	return poll(ctx, 20*time.Millisecond, func(context.Context) error {
		var errs []error
		for _, m := range list {
			errs = append(errs, removeCgroup(m.point))
		}
		return errors.Join(errs...)
	})
}

// removeCgroup kills the processes of a group and of those below, and removes
// the groups. It returns an error for groups whose processes have not exited yet.
func removeCgroup(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list the control groups: %w", err)
	}
	slices.Reverse(dirs) // children first
	var errs []error
	for _, dir := range dirs {
		// A frozen process does not exit. Only version 1 has this file.
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0o644)
		killCgroup(dir)
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func killCgroup(dir string) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return // it is removed
	}
	for _, text := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(text); err == nil && pid > 1 {
			// If it does not exit, the removal of the group reports that.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
