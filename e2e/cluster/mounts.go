package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// mount is a mounted filesystem.
type mount struct {
	point, kind string
}

func mounts() ([]mount, error) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	return parseMounts(string(data)), nil
}

// parseMounts parses the kernel's list, in which spaces are escaped in octal.
func parseMounts(text string) []mount {
	var list []mount
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) >= 3 {
			list = append(list, mount{point: unescape(fields[1]), kind: fields[2]})
		}
	}
	return list
}

func unescape(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// unmountAll unmounts all filesystems below the cluster's directory, the last
// first.
func unmountAll(l layout) error {
	list, err := mounts()
	if err != nil {
		return err
	}
	slices.Reverse(list)
	for _, m := range list {
		if !strings.HasPrefix(m.point, l.dir+"/") {
			continue
		}
		if err := syscall.Unmount(m.point, syscall.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", m.point, err)
		}
	}
	return nil
}
