package shim

import "github.com/hostler/hostler/runtime"

// Version is the protocol's, as this build's program speaks it and as this
// build's server gives it to the containers that it makes. Previous is the
// oldest that this build's server speaks.
//
// The build tag hostler_previous lowers both by one, for the tests of an
// upgrade: server and program of the version before.
const (
	Version  = 2 - previousOffset
	Previous = Version - 1
)

// Protocols are the versions that this build's server speaks.
func Protocols() runtime.Protocols {
	return runtime.Protocols{Oldest: Previous, Current: Version}
}
