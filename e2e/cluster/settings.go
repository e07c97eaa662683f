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

// settings are the kernel's that a kubelet changes for the whole machine when it
// starts, and at no other time, with the values that it sets.
var settings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// startKeepingSettings starts a kubelet and takes back what it does to the machine's
// settings, once it has done so. Without it the machine would keep them: they
// are right for a server that runs nothing but pods. One kubelet at a time, or
// the second one's settings would be what the first has set.
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
		return fmt.Errorf("wait for the kubelet's first deed: %w", err)
	}
	return restoreSettings(l)
}

// checkSettings is nil when the settings are all as a kubelet wants them.
func checkSettings(running func() (bool, error)) error {
	alive, err := running()
	if err != nil {
		return err
	}
	if !alive {
		return &permanentError{errors.New("it has ended")}
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

// saveSettings keeps what is set, unless something is kept already: then a
// kubelet may have changed them since.
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
	// Whole or not at all, should we be killed here.
	if err := os.WriteFile(file+".part", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
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
		if _, ok := settings[name]; !ok {
			continue
		}
		if err := os.WriteFile(filepath.Join(kernel, name), []byte(value), 0o644); err != nil {
			return fmt.Errorf("set the kernel's %s again: %w", name, err)
		}
	}
	return os.Remove(file)
}
