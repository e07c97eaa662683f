package shim

import "github.com/hostler/hostler/runtime"

// Version is the protocol version of this build's program, and of the
// containers that this build's server creates. Previous is the oldest version
// that this build's server speaks.
//
// The build tag hostler_previous lowers both by one, for the upgrade tests:
// server and program of the previous version.
const (
	Version  = 3 - previousOffset
	Previous = Version - 1
)

// RequestsVersion is the version from which on a container sends requests to the
// server.
const RequestsVersion = 3

// Protocols returns the versions that this build's server speaks.
func Protocols() runtime.Protocols {
	return runtime.Protocols{Oldest: Previous, Current: Version}
}
