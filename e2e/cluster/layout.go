package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// layout has the files, addresses and names of a cluster. Two clusters with
// different directories and indexes share nothing.
type layout struct {
	dir   string // an absolute path to a directory of the cluster's own
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
		return layout{}, fmt.Errorf("find the directory of the cluster: %w", err)
	}
	// Mounts and processes are identified by this directory, so it must be the
	// real path, also before it exists.
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return layout{}, fmt.Errorf("find the directory of the cluster: %w", err)
	}
	dir = filepath.Join(parent, filepath.Base(dir))
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return layout{}, fmt.Errorf("HOSTLER_CLUSTER_DIR is %s, which is not a directory", dir)
	}
	// Everything below it is removed.
	if home, _ := os.UserHomeDir(); dir == "/" || filepath.Dir(dir) == "/" || dir == home {
		return layout{}, fmt.Errorf("HOSTLER_CLUSTER_DIR is %s, which is not a directory of the cluster's own", dir)
	}
	l.dir = dir
	return l, nil
}

// Path returns the path of a file or directory of the cluster.
func (l layout) Path(name string) string { return filepath.Join(l.dir, filepath.FromSlash(name)) }

// Log returns the path of a part's log.
func (l layout) Log(part string) string { return l.Path("log/" + part + ".log") }

// Socket returns the path of containerd's socket.
func (l layout) Socket() string { return l.Path("run/containerd.sock") }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (l layout) Kubeconfig() string { return l.Path("kubeconfig") }

// Name returns the cluster's name, for what is outside the directory: the
// network, the control group, the mark on a rule.
func (l layout) Name() string { return fmt.Sprintf("hostler-cluster-%d", l.index) }

// Bridge returns the name of the pods' network device, at most 15 characters.
func (l layout) Bridge() string { return fmt.Sprintf("hostler-kube%d", l.index) }

// Hardware returns the bridge's fixed MAC address. Otherwise it would be the
// lowest of its ports' and change when pods are created and removed, and the
// others would send to the old one for up to 30 s.
func (l layout) Hardware() string { return fmt.Sprintf("02:68:6f:73:74:%02x", l.index) }

// Loopback returns the address of the parts that only other parts use.
func (l layout) Loopback() string { return fmt.Sprintf("127.64.%d.1", l.index) }

// Gateway returns the machine's address among the pods, which is the node's.
func (l layout) Gateway() string { return fmt.Sprintf("10.213.%d.1", l.index) }

// Pods returns the network of the pods.
func (l layout) Pods() string { return fmt.Sprintf("10.213.%d.0/24", l.index) }

// Services returns the address range of services.
func (l layout) Services() string { return fmt.Sprintf("10.214.%d.0/24", l.index) }

// APIServer returns the address of the service kubernetes.default. The API server
// itself listens there, because there is no kube-proxy.
func (l layout) APIServer() string { return fmt.Sprintf("10.214.%d.1", l.index) }

// URL returns the API server's URL, the same for the machine and for a pod.
func (l layout) URL() string { return "https://" + l.APIServer() + ":443" }

const (
	nodeName   = "node"
	pauseImage = "hostler.test/pause:1"
)
