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

// cgroups are the cluster's control groups: one in each hierarchy of version 1,
// or the only one of version 2.
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

// makeCgroups makes the group that the kubelet puts its pods below.
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
			return fmt.Errorf("make a control group: %w", err)
		}
		if m.kind == "cgroup2" {
			delegateControllers(m.point)
		}
	}
	return nil
}

// delegateControllers lets the children of a group have every controller that it has. What
// cannot be passed on the kubelet misses, and says so better than we could.
func delegateControllers(group string) {
	controllers, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, name := range strings.Fields(string(controllers)) {
		_ = os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+name), 0o644)
	}
}

// removeCgroups kills all that runs in pods and removes the pods' groups.
func removeCgroups(ctx context.Context, l layout) error {
	list, err := cgroups(l)
	if err != nil {
		return err
	}
	return poll(ctx, 20*time.Millisecond, func(context.Context) error {
		var faults []error
		for _, m := range list {
			faults = append(faults, removeCgroup(m.point))
		}
		return errors.Join(faults...)
	})
}

// removeCgroup kills the processes of a group and of those below, and removes
// the groups, as far as that goes at once: a killed process takes a moment.
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
	var faults []error
	for _, dir := range dirs {
		// What is frozen does not die; version 1 only has this file.
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0o644)
		killCgroup(dir)
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

func killCgroup(dir string) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return // it is gone
	}
	for _, text := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(text); err == nil && pid > 1 {
			// If it does not die, the group stays, and that is reported.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
