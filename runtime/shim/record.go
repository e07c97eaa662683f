package shim

// Record says which process is the init of a container that is only a folder.
// The start time, in the kernel's ticks, tells it from a later process with
// the same number.
type Record struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}
