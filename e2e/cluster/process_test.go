package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Only the cluster's processes are killed: not users of its files, and not
// another cluster's.
func TestIsOurs(t *testing.T) {
	l := layout{dir: "/tmp/cluster"}
	for name, test := range map[string]struct {
		argv []string
		part string // its part, if any
		ours bool
	}{
		"etcd":              {[]string{"/x/node-0a1b", "etcd", "--data-dir=/tmp/cluster/etcd"}, "etcd", true},
		"containerd":        {[]string{"/usr/bin/containerd", "--config", "/tmp/cluster/etc/containerd.toml"}, "containerd", true},
		"a shim":            {[]string{"/usr/bin/containerd-shim-runc-v2", "-address", "/tmp/cluster/run/containerd.sock"}, "", true},
		"runc":              {[]string{"runc", "--root", "/tmp/cluster/run/runc/k8s.io", "create"}, "", true},
		"another cluster":   {[]string{"/x/node-0a1b", "etcd", "--data-dir=/tmp/cluster2/etcd"}, "", false},
		"another's shim":    {[]string{"/usr/bin/containerd-shim-runc-v2", "-address", "/run/containerd/containerd.sock"}, "", false},
		"a reader":          {[]string{"tail", "-f", "/tmp/cluster/log/kubelet.log"}, "", false},
		"a searcher":        {[]string{"grep", "kubelet", "/tmp/cluster/log/kubelet.log"}, "", false},
		"a client":          {[]string{"kubectl", "--kubeconfig=/tmp/cluster/kubeconfig", "get", "pods"}, "", false},
		"nothing but names": {[]string{"containerd"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.ours, isOurs(l, test.argv))
			for _, p := range parts {
				require.Equal(t, p.name == test.part, p.matches(l, test.argv), p.name)
			}
		})
	}
}

// The command line of every part matches this part and no other.
func TestPartsMatchOwnCommandLine(t *testing.T) {
	l := layout{dir: "/tmp/cluster"}
	for _, p := range parts {
		argv := p.argv(l, tools{node: "/x/node-0a1b"})
		for _, q := range parts {
			require.Equal(t, p.name == q.name, q.matches(l, argv), "%s taken for %s", p.name, q.name)
		}
	}
}

// The error of poll has the last error, and a permanent error ends it at once.
func TestPoll(t *testing.T) {
	not := errors.New("not yet")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := poll(ctx, time.Millisecond, func(context.Context) error { return not })
	require.ErrorIs(t, err, not)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	asked := 0
	err = poll(t.Context(), time.Millisecond, func(context.Context) error {
		asked++
		return &permanentError{not}
	})
	require.ErrorIs(t, err, not)
	require.Equal(t, 1, asked)
}

// A part is running as soon as start returns, and start does not wait for one
// that exits at once.
func TestStartIsVisible(t *testing.T) {
	dir := t.TempDir()
	l := layout{dir: dir}
	require.NoError(t, os.Mkdir(l.Path("log"), 0o755))
	program := filepath.Join(dir, "node-test")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nwhile :; do sleep 1; done\n"), 0o755))
	p := part{name: "etcd", word: "etcd", argv: func(layout, tools) []string {
		return []string{program, "etcd", "--data-dir=" + l.Path("etcd")}
	}}
	// A script's command line begins with its interpreter.
	picked := func(argv []string) bool { return slices.Contains(argv, "--data-dir="+l.Path("etcd")) }
	t.Cleanup(func() { require.NoError(t, killAll(context.Background(), picked)) })
	for range 20 {
		require.NoError(t, p.start(t.Context(), l, tools{}))
		list, err := processes()
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(list, func(q process) bool { return picked(q.argv) }))
		require.NoError(t, killAll(t.Context(), picked))
	}

	p.argv = func(layout, tools) []string { return []string{"false"} }
	require.NoError(t, p.start(t.Context(), l, tools{}))
}
