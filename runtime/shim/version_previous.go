//go:build hostler_previous

package shim

const lowered = 1
