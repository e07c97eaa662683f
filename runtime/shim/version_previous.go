//go:build hostler_previous

package shim

const previousOffset = 1
