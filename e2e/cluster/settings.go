package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const kernel = "/proc/sys"

// settings are the kernel settings that a kubelet changes for the whole machine
// when it starts, with the values that it sets.
var settings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// startKeepingSettings starts a kubelet and restores the machine's settings after
// the kubelet has changed them, because they suit only a machine that runs nothing
// but pods. It starts one kubelet at a time, because a second one would save the
// settings of the first.
func startKeepingSettings(ctx context.Context, l layout, start func() error, running func() (bool, error)) error {
	lock, err := os.Open(filepath.Join(kernel, "vm/overcommit_memory"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the kernel's settings: %w", err)
	}
	if err := saveSettings(l); err != nil {
		return err
	}
	if err := start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := poll(ctx, pollInterval, func(context.Context) error { return checkSettings(running) }); err != nil {
		return fmt.Errorf("wait for the kubelet's settings: %w", err)
	}
	return restoreSettings(l)
}

// checkSettings returns nil if all settings have the kubelet's values.
func checkSettings(running func() (bool, error)) error {
	alive, err := running()
	if err != nil {
		return err
	}
	if !alive {
		return &permanentError{errors.New("it has exited")}
	}
	values, err := readSettings()
	if err != nil {
		return err
	}
	for name, value := range values {
		if value != settings[name] {
			return fmt.Errorf("it has not set %s yet", name)
		}
	}
	return nil
}

func readSettings() (map[string]string, error) {
	values := map[string]string{}
	for name := range settings {
		value, err := os.ReadFile(filepath.Join(kernel, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without it
		}
		if err != nil {
			return nil, fmt.Errorf("read the kernel's setting %s: %w", name, err)
		}
		values[name] = strings.TrimSpace(string(value))
	}
	return values, nil
}

// saveSettings saves the settings, unless there are saved ones: then a kubelet may
// have changed them since.
func saveSettings(l layout) error {
	file := l.Path("settings.json")
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	values, err := readSettings()
	if err != nil {
		return err
	}
	data, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("encode the kernel's settings: %w", err)
	}
	// The file is complete or missing, also if we are killed here.
	if err := os.WriteFile(file+".part", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
}

// restoreSettings restores the saved settings, and removes the file.
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
		if _, ok := settings[name]; !ok {
			continue
		}
		if err := os.WriteFile(filepath.Join(kernel, name), []byte(value), 0o644); err != nil {
			return fmt.Errorf("restore the kernel's %s: %w", name, err)
		}
	}
	return os.Remove(file)
}
