package main

import (
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

//go:embed config
var configFiles embed.FS

// dirs are the initial subdirectories of a cluster's directory. Only root can
// read etcd's data and the keys.
var dirs = []string{"etc", "etc/cni", "etcd", "log", "pki", "run"}

// subjects returns the certificates' subjects, with the Kubernetes user of each.
func subjects(l layout) map[string]subject {
	return map[string]subject{
		"admin": {name: "admin", group: "system:masters"},
		// With a separate role they would have to wait until it is created.
		"controllers": {name: "system:kube-controller-manager", group: "system:masters"},
		"scheduler":   {name: "system:kube-scheduler"},
		"kubelet":     {name: "system:node:" + nodeName, group: "system:nodes"},
		// The API server, as a client of the kubelet.
		"apiserver-client": {name: "apiserver", group: "system:masters"},
		"kubelet-server":   {name: nodeName, hosts: []string{nodeName, l.Gateway()}},
		"apiserver": {name: "kube-apiserver", hosts: []string{
			l.APIServer(), "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		}},
	}
}

// files are the configuration files that all parts share: the template, and the
// path of the result.
var files = map[string]string{
	"containerd.toml":  "etc/containerd.toml",
	"kubelet.yaml":     "etc/kubelet.yaml",
	"network.conflist": "etc/cni/10-bridge.conflist",
}

// kubeconfigs are the paths of the kubeconfigs, by subject.
var kubeconfigs = map[string]string{
	"admin":       "kubeconfig",
	"controllers": "etc/controllers.kubeconfig",
	"scheduler":   "etc/scheduler.kubeconfig",
	"kubelet":     "etc/kubelet.kubeconfig",
}

// configure writes new credentials and a new configuration.
func configure(l layout) error {
	if err := os.RemoveAll(l.Path("log")); err != nil { // the earlier cluster's
		return err
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(l.Path(dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(l.Path("pki"), 0o700); err != nil {
		return err
	}
	credentials, authority, err := issueAll(l)
	if err != nil {
		return err
	}
	for user, file := range kubeconfigs {
		if err := writeKubeconfig(l, user, file, authority.pem, credentials[user]); err != nil {
			return err
		}
	}
	plugins, err := findPlugins()
	if err != nil {
		return err
	}
	data := struct {
		layout
		CNIPlugins, PauseImage string
	}{l, plugins, pauseImage}
	for source, file := range files {
		if err := render(source, l.Path(file), data); err != nil {
			return err
		}
	}
	// The cluster has no name server, and pods must not use the machine's.
	return os.WriteFile(l.Path("etc/resolv.conf"), nil, 0o644)
}

func issueAll(l layout) (map[string]credential, *authority, error) {
	authority, err := newAuthority(time.Now())
	if err != nil {
		return nil, nil, err
	}
	dir := l.Path("pki")
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), authority.pem, 0o600); err != nil {
		return nil, nil, err
	}
	credentials := map[string]credential{}
	for name, subject := range subjects(l) {
		c, err := authority.Issue(subject)
		if err != nil {
			return nil, nil, err
		}
		if err := c.write(dir, name); err != nil {
			return nil, nil, err
		}
		credentials[name] = c
	}
	return credentials, authority, writeSigningKey(dir)
}

// writeKubeconfig writes a kubeconfig that refers to no other file, so that a
// test can copy it.
func writeKubeconfig(l layout, user, file string, authority []byte, c credential) error {
	return render("kubeconfig.yaml", l.Path(file), struct {
		layout
		User, CA, Certificate, Key string
	}{
		l, user,
		base64.StdEncoding.EncodeToString(authority),
		base64.StdEncoding.EncodeToString(c.certificate),
		base64.StdEncoding.EncodeToString(c.key),
	})
}

func render(source, file string, data any) error {
	t, err := template.ParseFS(configFiles, "config/"+source)
	if err != nil {
		return fmt.Errorf("read the template %s: %w", source, err)
	}
	var text strings.Builder
	if err := t.Option("missingkey=error").Execute(&text, data); err != nil {
		return fmt.Errorf("fill in the template %s: %w", source, err)
	}
	return os.WriteFile(file, []byte(text.String()), 0o600)
}

// findPlugins returns the directory of the network plugins.
func findPlugins() (string, error) {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the network plugins are not installed (Debian: containernetworking-plugins)")
}
