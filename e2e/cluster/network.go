package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The machine and the pods are connected by a bridge. Pods have routes to it and
// to the API server's address, which is the machine's, and no other: they cannot
// reach other networks of the machine, without a firewall.

// makeNetwork creates the bridge. The plugin would do so only for the first pod,
// and would enable forwarding for the whole machine.
func makeNetwork(ctx context.Context, l layout) error {
	bridge := l.Bridge()
	for _, args := range [][]string{
		{"link", "add", bridge, "address", l.Hardware(), "type", "bridge"},
		{"addr", "add", l.Gateway() + "/24", "dev", bridge},
		{"addr", "add", l.APIServer() + "/32", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if err := run(ctx, "ip", args...); err != nil {
			return fmt.Errorf("create the bridge %s: %w", bridge, err)
		}
	}
	if !hasPacketFilter() {
		return nil
	}
	if err := run(ctx, "iptables", append([]string{"--wait", "--insert"}, acceptRule(l)...)...); err != nil {
		return fmt.Errorf("let pods reach each other: %w", err)
	}
	return nil
}

// acceptRule accepts packets that stay on the bridge: with a Docker engine,
// bridged packets are filtered as if forwarded, and dropped by default.
func acceptRule(l layout) []string {
	return []string{
		"FORWARD", "--in-interface", l.Bridge(), "--out-interface", l.Bridge(),
		"--match", "comment", "--comment", l.Name(), "--jump", "ACCEPT",
	}
}

// hasPacketFilter reports whether there is a packet filter.
func hasPacketFilter() bool {
	_, err := lookPath("iptables")
	return err == nil
}

// removeNetwork removes what makeNetwork and the network plugin have created.
func removeNetwork(ctx context.Context, l layout) error {
	var faults []error
	if hasPacketFilter() {
		rule := acceptRule(l)
		for run(ctx, "iptables", append([]string{"--wait", "--check"}, rule...)...) == nil {
			if err := run(ctx, "iptables", append([]string{"--wait", "--delete"}, rule...)...); err != nil {
				faults = append(faults, fmt.Errorf("remove the packet filter's rule: %w", err))
				break
			}
		}
	}
	device := filepath.Join("/sys/class/net", l.Bridge())
	// Otherwise the kernel removes the pods' devices later.
	ports, _ := filepath.Glob(filepath.Join(device, "brif", "*"))
	for _, port := range ports {
		// A device that is already removed is not an error.
		_ = run(ctx, "ip", "link", "delete", filepath.Base(port))
	}
	if _, err := os.Stat(device); err == nil {
		if err := run(ctx, "ip", "link", "delete", l.Bridge()); err != nil {
			faults = append(faults, fmt.Errorf("remove the bridge: %w", err))
		}
	}
	return errors.Join(append(faults, removeResults(l, "/var/lib/cni"))...)
}

// removeResults removes the plugins' cached results for the cluster's pods, which
// are outside the cluster's directory. Each file has the path of its pod's network
// namespace, which is in the cluster's directory.
func removeResults(l layout, memory string) error {
	results := filepath.Join(memory, "results")
	entries, err := os.ReadDir(results)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		file := filepath.Join(results, entry.Name())
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), `"`+l.dir+"/") {
			continue // it belongs to another cluster, or was just removed
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	removeIfEmpty(results, memory)
	return nil
}

// removeIfEmpty removes directories that are empty.
func removeIfEmpty(dirs ...string) {
	for _, dir := range dirs {
		// Remove fails if the directory is not empty or does not exist.
		_ = os.Remove(dir)
	}
}
