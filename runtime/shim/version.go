package shim

import "github.com/hostler/hostler/runtime"

// Version is the protocol version of this build's program, and of the
// containers that this build's server creates. Previous is the oldest version
// that this build's server speaks.
const (
	Version  = 3
	Previous = Version - 1
)

// RequestsVersion is the version from which on a container sends requests to the
// server.
const RequestsVersion = 3

// Protocols returns the versions that this build's server speaks.
func Protocols() runtime.Protocols {
	return runtime.Protocols{Oldest: Previous, Current: Version}
}
