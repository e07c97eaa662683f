package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// settings are the kernel's that a kubelet changes for the whole machine when
// it starts, and at no other time.
var settings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom",
	"kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// rememberSettings keeps what is set, unless something is kept already: then a
// kubelet has changed them since.
func rememberSettings(l layout) error {
	file := l.Path("settings.json")
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	values := map[string]string{}
	for _, name := range settings {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the kernel's setting %s: %w", name, err)
		}
		values[name] = strings.TrimSpace(string(value))
	}
	data, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("encode the kernel's settings: %w", err)
	}
	return os.WriteFile(file, data, 0o600)
}

// restoreSettings sets again what was remembered, and forgets it.
func restoreSettings(l layout) error {
	file := l.Path("settings.json")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var values map[string]string
	if err := json.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	for name, value := range values {
		if !slices.Contains(settings, name) {
			continue
		}
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644); err != nil {
			return fmt.Errorf("set the kernel's %s again: %w", name, err)
		}
	}
	return os.Remove(file)
}
