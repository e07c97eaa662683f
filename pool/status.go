package pool

import "time"

// Status is the status of a pool.
type Status struct {
	Workload   string        `json:"workload"`
	Revision   string        `json:"revision"`
	MinIdle    int           `json:"min_idle"`
	MaxSize    int           `json:"max_size"`
	Containers map[State]int `json:"containers" doc:"The number of containers in each state."`
	Kept       int           `json:"kept" doc:"Claimed containers whose release has failed. Up to max_size of them do not count towards max_size."`
	Outdated   int           `json:"outdated" doc:"Containers of an older revision or protocol version, idle or claimed."`
	Newer      int           `json:"newer,omitempty" doc:"Containers that a newer server created, in any state. This server does not change them."`
	Waiting    int           `json:"waiting" doc:"Claims that wait for a container on this server."`
	Fill       FillStatus    `json:"fill"`
	Deleting   bool          `json:"deleting,omitempty" doc:"The workload is removed when its last container is destroyed."`
}

// FillState is the state of the fill loop for a pool.
type FillState string

// The states of the fill loop.
const (
	FillIdle     FillState = "idle"        // there are enough containers
	Filling      FillState = "filling"     // containers are being created
	BackingOff   FillState = "backing_off" // the last creation failed; waiting for the next
	FillFailing  FillState = "failing"     // failingThreshold consecutive failures or more
	FillDraining FillState = "draining"    // no containers are created
)

// FillStates returns every state of the fill loop.
func FillStates() []FillState {
	return []FillState{FillIdle, Filling, BackingOff, FillFailing, FillDraining}
}

// FillStatus is the state of the fill loop for a pool, and its last error.
type FillStatus struct {
	State    FillState  `json:"state"`
	Failures int        `json:"failures" doc:"Consecutive failures to create a container."`
	NextTry  *time.Time `json:"next_try,omitempty"`
	// LastError is why the last creation failed. It is cleared when one succeeds.
	LastError      string     `json:"last_error,omitempty" doc:"The cause, and the last lines that the main process printed."`
	LastErrorChain []string   `json:"last_error_chain,omitempty" doc:"What was being done when it occurred, outermost first."`
	LastContainer  string     `json:"last_container,omitempty" doc:"The container whose creation that was. Its output is kept."`
	LastErrorAt    *time.Time `json:"last_error_at,omitempty"`
}

// Scale is a change of a pool's bounds; nil does not change the bound.
type Scale struct {
	MinIdle *int `json:"min_idle,omitempty"`
	MaxSize *int `json:"max_size,omitempty"`
}

// Applied is the result of applying a workload file.
type Applied struct {
	Record  Record
	Created bool // the workload did not exist
	Changed bool // the record has changed
}
