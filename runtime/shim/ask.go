package shim

import (
	"fmt"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// Ask is a runtime.Request as sent, with OpAsk.
type Ask struct {
	ID       string `json:"key"`
	Name     string `json:"name"`
	Body     []byte `json:"body,omitempty"`
	FromHook bool   `json:"hook,omitempty"`
	RunID    string `json:"run,omitempty"`
}

// Answer is a runtime.Response as sent.
type Answer struct {
	Body    []byte           `json:"body,omitempty"`
	Problem *runtime.Problem `json:"problem,omitempty"`
}

// Refuse returns an answer with a problem.
func Refuse(code runtime.ProblemCode, detail string) Answer {
	return Answer{Problem: &runtime.Problem{Code: code, Detail: detail}}
}

// Where processes of a container send requests. The socket is an abstract one: a
// process of any user can connect to it, no process can remove or replace it
// while the program listens, and it needs no directory.
const (
	AskSocket = "@hostler"
	// AskSocketEnv is the variable with the path of the socket where there is no
	// network of the container's own, and so no abstract socket.
	AskSocketEnv = "HOSTLER_SOCKET"
	// AskBinaryName is the name of the program that sends requests: a copy of this
	// program in BinDir that everyone may read, as gVisor requires.
	AskBinaryName = "hostler"
	AskBinaryPath = BinDir + "/" + AskBinaryName
	AskFileMode   = 0o555
	// AskBinDirEnv is the variable with its directory where that is not BinDir.
	AskBinDirEnv = "HOSTLER_BIN"
)

// MaxAskSize bounds a request with an Ask, and the frame with its answer, in
// bytes: the body, which base64 makes longer by a third, and the rest.
const MaxAskSize = runtime.MaxRequestBody/3*4 + 8<<10

// Invalid describes why no process of a container can have sent the request, or
// returns "". Both ends check it: the program refuses it to the process, and the
// server ends the connection.
func (a *Ask) Invalid() string {
	switch {
	case a == nil:
		return "there is none"
	case !runtime.IsRequestID(a.ID):
		return fmt.Sprintf("its ID is not 1 to %d letters, digits and . _ -", runtime.MaxRequestID)
	case !runtime.IsRequestName(a.Name):
		return fmt.Sprintf("its name is not 1 to %d letters, digits and . _ -", runtime.MaxRequestName)
	case len(a.RunID) > maxRunID:
		return "the ID of its command is too long"
	case len(a.Body) > runtime.MaxRequestBody:
		return fmt.Sprintf("its body has %d bytes, at most %d are allowed", len(a.Body), runtime.MaxRequestBody)
	}
	return ""
}

// maxRunID bounds the ID of a command, in bytes.
const maxRunID = 256

// Rate is how many requests may be sent: Burst at once, and PerSecond after
// that.
type Rate struct {
	PerSecond float64
	Burst     float64
}

// The rates of a container's requests. The program keeps ProgramRate. The server
// allows more: requests may arrive closer together than they were sent, at most
// as many as may be open at once. So only a program that is not intact exceeds
// serverRate.
var (
	ProgramRate = Rate{PerSecond: 20, Burst: 40}
	serverRate  = Rate{PerSecond: 25, Burst: 40 + runtime.MaxRequests + 8}
)

// Bucket counts requests. Its methods may be called by
// multiple goroutines.
//
// Those of a container are counted for its claim: a tenant sends no more of them
// because its processes, the program or a connection begin again.
type Bucket struct {
	rate Rate

	// mu guards the fields below.
	mu    sync.Mutex
	used  float64 // of the burst, at that time
	since time.Time
	fence int64 // see Begin
}

// NewBucket returns a full bucket.
func NewBucket(r Rate) *Bucket { return &Bucket{rate: r} }

// Take counts a request, and reports whether it is within the rate. One that is
// not does not count.
func (b *Bucket) Take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = max(0, b.used-max(0, now.Sub(b.since).Seconds())*b.rate.PerSecond)
	b.since = now
	if b.used+1 > b.rate.Burst {
		return false
	}
	b.used++
	return true
}

// Begin fills the bucket if the fence is greater than those before: that is a later
// flow, and none that a tenant begins by itself.
func (b *Bucket) Begin(fence int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if fence > b.fence {
		b.fence, b.used = fence, 0
	}
}

// Reset fills the bucket.
func (b *Bucket) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = 0
}
