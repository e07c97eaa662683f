//go:build !linux

package dbtest

// parent returns the default directory of temporary files.
func parent() string { return "" }
