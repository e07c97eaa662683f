package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// layout says where everything of one cluster is: files, addresses, names. Two
// clusters with another folder and another index share nothing.
type layout struct {
	dir   string // an absolute path; its end is ours alone
	index int    // 0 to 255, a part of every address and name
}

// layoutOf reads the layout from the environment that getenv gives.
func layoutOf(getenv func(string) string) (layout, error) {
	l := layout{dir: "/tmp/hostler-cluster"}
	if dir := getenv("HOSTLER_CLUSTER_DIR"); dir != "" {
		l.dir = dir
	}
	if text := getenv("HOSTLER_CLUSTER_INDEX"); text != "" {
		index, err := strconv.Atoi(text)
		if err != nil || index < 0 || index > 255 {
			return layout{}, fmt.Errorf("HOSTLER_CLUSTER_INDEX is %q, not a number from 0 to 255", text)
		}
		l.index = index
	}
	dir, err := filepath.Abs(l.dir)
	if err != nil {
		return layout{}, fmt.Errorf("find the folder of the cluster: %w", err)
	}
	// Mounts and processes are known by this folder: it must be its real name,
	// whether it exists yet or not.
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return layout{}, fmt.Errorf("find the folder of the cluster: %w", err)
	}
	dir = filepath.Join(parent, filepath.Base(dir))
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return layout{}, fmt.Errorf("HOSTLER_CLUSTER_DIR is %s, which is not a folder", dir)
	}
	// What is below it is removed.
	if home, _ := os.UserHomeDir(); dir == "/" || filepath.Dir(dir) == "/" || dir == home {
		return layout{}, fmt.Errorf("HOSTLER_CLUSTER_DIR is %s, which is not a folder of the cluster's own", dir)
	}
	l.dir = dir
	return l, nil
}

// Path is a file or folder of the cluster's own.
func (l layout) Path(name string) string { return filepath.Join(l.dir, filepath.FromSlash(name)) }

// Log is where what a part writes goes.
func (l layout) Log(part string) string { return l.Path("log/" + part + ".log") }

// Socket is where containerd listens.
func (l layout) Socket() string { return l.Path("run/containerd.sock") }

// Kubeconfig is the administrator's.
func (l layout) Kubeconfig() string { return l.Path("kubeconfig") }

// Name is the cluster's, for whatever of it lies outside the folder: the
// network, the control group, the mark on a rule.
func (l layout) Name() string { return fmt.Sprintf("hostler-cluster-%d", l.index) }

// Bridge is the network device of the pods; a device's name has 15 letters.
func (l layout) Bridge() string { return fmt.Sprintf("hostler-kube%d", l.index) }

// Hardware is the bridge's address on the wire, set by hand: otherwise it is the
// lowest of its ports' and changes as pods come and go, and the others send to
// the old one until they ask again, for up to half a minute.
func (l layout) Hardware() string { return fmt.Sprintf("02:68:6f:73:74:%02x", l.index) }

// Loopback is where the parts listen that nobody but the other parts needs.
func (l layout) Loopback() string { return fmt.Sprintf("127.64.%d.1", l.index) }

// Gateway is the machine's address among the pods, and the node's.
func (l layout) Gateway() string { return fmt.Sprintf("10.213.%d.1", l.index) }

// Pods is the network of the pods.
func (l layout) Pods() string { return fmt.Sprintf("10.213.%d.0/24", l.index) }

// Services is the range that services get their addresses from.
func (l layout) Services() string { return fmt.Sprintf("10.214.%d.0/24", l.index) }

// APIServer is the address of the service kubernetes.default: there is no
// kube-proxy, so the API server itself listens there.
func (l layout) APIServer() string { return fmt.Sprintf("10.214.%d.1", l.index) }

// URL is the API server's, the same from the machine and from a pod.
func (l layout) URL() string { return "https://" + l.APIServer() + ":443" }

const (
	nodeName   = "node"
	pauseImage = "hostler.test/pause:1"
)
