package pool

import "time"

// Status is a pool as an operator sees it.
type Status struct {
	Workload   string        `json:"workload"`
	Revision   string        `json:"revision"`
	MinIdle    int           `json:"min_idle"`
	MaxSize    int           `json:"max_size"`
	Containers map[State]int `json:"containers" doc:"How many are in each state."`
	Kept       int           `json:"kept" doc:"Claimed ones whose release has failed: they do not count against max_size, up to as many more."`
	Outdated   int           `json:"outdated" doc:"Containers of an older revision or protocol version, idle or claimed."`
	Newer      int           `json:"newer,omitempty" doc:"Containers that a newer server made, in any state: this one leaves them alone."`
	Waiting    int           `json:"waiting" doc:"Claims that wait for a container on this server."`
	Fill       FillStatus    `json:"fill"`
	Deleting   bool          `json:"deleting,omitempty" doc:"The workload goes when its last container is gone."`
}

// FillState is what the fill loop does for a pool.
type FillState string

// What the fill loop may be doing.
const (
	FillIdle     FillState = "idle"        // there are enough
	Filling      FillState = "filling"     // containers are being made
	BackingOff   FillState = "backing_off" // the last one failed; it waits before the next
	FillFailing  FillState = "failing"     // many in a row failed: one is tried now and then
	FillDraining FillState = "draining"    // none is made
)

// FillStatus is what the fill loop does for a pool and what went wrong last.
type FillStatus struct {
	State    FillState  `json:"state"`
	Failures int        `json:"failures" doc:"Containers in a row that could not be made."`
	NextTry  *time.Time `json:"next_try,omitempty"`
	// LastError is why the last container could not be made. It stays until
	// one could.
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
}

// Scale is a change of a pool's bounds; nil leaves one as it is.
type Scale struct {
	MinIdle *int `json:"min_idle,omitempty"`
	MaxSize *int `json:"max_size,omitempty"`
}

// Applied is what applying a workload file did.
type Applied struct {
	Record  Record
	Created bool // there was no such workload
	Changed bool // its revision or its pool changed
}
