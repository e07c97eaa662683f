package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The machine and the pods meet on a bridge. Pods have a route to it and to the
// API server's address, which is the machine's, and no other: whatever else the
// machine can reach is out of their reach, without a firewall.

// makeNetwork makes the bridge. The plugin would do so for the first pod only,
// and would turn on forwarding for the whole machine.
func makeNetwork(ctx context.Context, l layout) error {
	bridge := l.Bridge()
	for _, args := range [][]string{
		{"link", "add", bridge, "address", l.Hardware(), "type", "bridge"},
		{"addr", "add", l.Gateway() + "/24", "dev", bridge},
		{"addr", "add", l.APIServer() + "/32", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if err := run(ctx, "ip", args...); err != nil {
			return fmt.Errorf("make the bridge %s: %w", bridge, err)
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

// acceptRule lets packets pass that stay on the bridge: where a Docker engine
// runs, bridged packets are filtered as if forwarded, and dropped by default.
func acceptRule(l layout) []string {
	return []string{
		"FORWARD", "--in-interface", l.Bridge(), "--out-interface", l.Bridge(),
		"--match", "comment", "--comment", l.Name(), "--jump", "ACCEPT",
	}
}

// hasPacketFilter says whether there is a packet filter that could be asked.
func hasPacketFilter() bool {
	_, err := lookPath("iptables")
	return err == nil
}

// removeNetwork removes what makeNetwork and the pods' network made.
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
	// Without this the pods' ends stay until the kernel has time for them.
	ports, _ := filepath.Glob(filepath.Join(device, "brif", "*"))
	for _, port := range ports {
		// One that is gone already is as good.
		_ = run(ctx, "ip", "link", "delete", filepath.Base(port))
	}
	if _, err := os.Stat(device); err == nil {
		if err := run(ctx, "ip", "link", "delete", l.Bridge()); err != nil {
			faults = append(faults, fmt.Errorf("remove the bridge: %w", err))
		}
	}
	return errors.Join(append(faults, removeResults(l, "/var/lib/cni"))...)
}

// removeResults removes the plugins' memory of the cluster's pods, the one that
// they keep at a place of their own. Each file names its pod's namespace, and
// those lie in our folder.
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
			continue // another's, or just removed by it
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	removeIfEmpty(results, memory)
	return nil
}

// removeIfEmpty removes folders that hold nothing any more.
func removeIfEmpty(dirs ...string) {
	for _, dir := range dirs {
		// It refuses what is not empty, and what is not there is removed already.
		_ = os.Remove(dir)
	}
}
