package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// tools are the programs of a cluster, without Debian's.
type tools struct {
	node  string // etcd and Kubernetes, see directory node
	pause string // process 1 of a pod, see directory pause
}

// part is one of the programs of which a cluster consists.
type part struct {
	name string
	// argv is the command line. It must have a path below the cluster's
	// directory: that path and word identify a process as this part.
	argv func(l layout, t tools) []string
	// word is the base name of one of the first two arguments.
	word string
	// ready returns nil if the part works, or why it does not yet.
	ready func(ctx context.Context, l layout) error
	// changesSettings is whether the part changes the kernel's settings when it
	// starts.
	changesSettings bool
}

// parts in the order of their start.
var parts = []part{
	{name: "etcd", word: "etcd", argv: etcdArgs, ready: etcdReady},
	{name: "apiserver", word: "kube-apiserver", argv: apiserverArgs, ready: apiserverReady},
	{name: "containerd", word: "containerd", argv: containerdArgs, ready: containerdReady},
	{name: "controllers", word: "kube-controller-manager", argv: controllersArgs, ready: accountReady},
	{name: "scheduler", word: "kube-scheduler", argv: schedulerArgs, ready: schedulerReady},
	{name: "kubelet", word: "kubelet", argv: kubeletArgs, ready: kubeletReady, changesSettings: true},
}

func partNamed(name string) (part, error) {
	for _, p := range parts {
		if p.name == name {
			return p, nil
		}
	}
	return part{}, fmt.Errorf("a cluster has no part named %q", name)
}

func etcdArgs(l layout, t tools) []string {
	return []string{
		t.node, "etcd",
		"--data-dir=" + l.Path("etcd"),
		"--listen-client-urls=" + etcdURL(l),
		"--listen-peer-urls=http://" + l.Loopback() + ":2380",
	}
}

func etcdURL(l layout) string { return "http://" + l.Loopback() + ":2379" }

func apiserverArgs(l layout, t tools) []string {
	return []string{
		t.node, "kube-apiserver",
		"--etcd-servers=" + etcdURL(l),
		"--bind-address=" + l.APIServer(),
		"--secure-port=443",
		"--advertise-address=" + l.APIServer(),
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + l.Services(),
		"--client-ca-file=" + l.Path("pki/ca.crt"),
		"--tls-cert-file=" + l.Path("pki/apiserver.crt"),
		"--tls-private-key-file=" + l.Path("pki/apiserver.key"),
		"--kubelet-client-certificate=" + l.Path("pki/apiserver-client.crt"),
		"--kubelet-client-key=" + l.Path("pki/apiserver-client.key"),
		"--kubelet-certificate-authority=" + l.Path("pki/ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.Path("pki/accounts.pub"),
		"--service-account-signing-key-file=" + l.Path("pki/accounts.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--profiling=false",
	}
}

func containerdArgs(l layout, _ tools) []string {
	return []string{"containerd", "--config", l.Path("etc/containerd.toml")}
}

func controllersArgs(l layout, t tools) []string {
	return append([]string{
		t.node, "kube-controller-manager",
		"--service-account-private-key-file=" + l.Path("pki/accounts.key"),
		"--root-ca-file=" + l.Path("pki/ca.crt"),
		"--allocate-node-cidrs=false",
		"--secure-port=10257",
	}, controlArgs(l, "controllers")...)
}

func schedulerArgs(l layout, t tools) []string {
	return append([]string{t.node, "kube-scheduler", "--secure-port=10259"}, controlArgs(l, "scheduler")...)
}

// controlArgs are the arguments of the parts that are clients of the API server.
func controlArgs(l layout, user string) []string {
	kubeconfig := l.Path("etc/" + user + ".kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=" + l.Loopback(),
		"--leader-elect=false",
		"--profiling=false",
	}
}

func kubeletArgs(l layout, t tools) []string {
	return []string{
		t.node, "kubelet",
		"--config=" + l.Path("etc/kubelet.yaml"),
		"--kubeconfig=" + l.Path("etc/kubelet.kubeconfig"),
		"--root-dir=" + l.Path("kubelet"),
		"--hostname-override=" + nodeName,
		"--node-ip=" + l.Gateway(),
	}
}

func etcdReady(ctx context.Context, l layout) error {
	return probe(ctx, http.DefaultClient, etcdURL(l)+"/health")
}

func apiserverReady(ctx context.Context, l layout) error {
	api, err := newAPI(l)
	if err != nil {
		return err
	}
	return api.get(ctx, "/readyz", nil)
}

func containerdReady(ctx context.Context, l layout) error {
	return ctr(ctx, l, "version")
}

func schedulerReady(ctx context.Context, l layout) error {
	return probe(ctx, insecure, "https://"+l.Loopback()+":10259/healthz")
}

func kubeletReady(ctx context.Context, l layout) error {
	if err := probe(ctx, http.DefaultClient, "http://"+l.Loopback()+":10248/healthz"); err != nil {
		return err
	}
	if err := nodeReady(ctx, l); err != nil {
		return err
	}
	return podsReady(ctx, l)
}

// ctr runs containerd's command line in the namespace of Kubernetes' images and
// containers.
func ctr(ctx context.Context, l layout, args ...string) error {
	args = append([]string{"--address", l.Socket(), "--namespace", "k8s.io"}, args...)
	return run(ctx, "ctr", args...)
}

// run runs a program. Its output is a part of the error.
func run(ctx context.Context, name string, args ...string) error {
	path, err := lookPath(name)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %q: %w: %s", name, args, err, lastLines(out, 5))
	}
	return nil
}

// lookPath finds a program, also in the directories of administrators' programs,
// which are often not in PATH.
func lookPath(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range sbin {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("the program %s is not installed", name)
}

var sbin = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}
