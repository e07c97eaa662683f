package shim

import (
	"time"

	"github.com/hostler/hostler/runtime"
)

// The messages of the protocol. Containers outlive the server that made them,
// and their program stays what it was. So every container has a version, that
// of the server that made it, in the engine's record, where nothing in the
// container can change it. A session is of that version: the server's Handshake
// says it, a program whose version is another one refuses it, and an answer with
// another version is that of a container out of control.
//
// A change of the protocol after the first release, such as a request that an
// older program does not know, raises Version. The server continues to speak
// Previous, for containers that are claimed: what differs depends on
// link.version, where the server sends or reads it. The
// program speaks its own Version only. Versions 1 and 2 do not differ. The
// greetings, up to and with their versions, can never change.

// Handshake is the first message of a client.
type Handshake struct {
	Version  int      `json:"version"` // of the container's record
	Nonce    []byte   `json:"nonce"`
	Features []string `json:"features,omitempty"`
}

// MainState is what the main process is doing.
type MainState string

// The states of the main process.
const (
	MainRunning MainState = "running"
	MainFailed  MainState = "failed"  // it never started; HandshakeReply.Fault says why
	MainStopped MainState = "stopped" // a wipe ended it
)

// HandshakeReply answers a Handshake.
type HandshakeReply struct {
	Version  int        `json:"version"`
	Nonce    []byte     `json:"nonce"`
	Features []string   `json:"features,omitempty"`
	BootID   string     `json:"boot"` // new whenever the container starts
	Main     MainState  `json:"main,omitempty"`
	Error    *WireError `json:"error,omitempty"`
}

// Op is what a Request asks for.
type Op string

// The requests.
const (
	OpRun            Op = "run"
	OpWaitResult     Op = "outcome" // of the run of Key, which another request has begun
	OpCancel         Op = "cancel"  // ends the run of Key as its timeout would; has no answer
	OpRestart        Op = "restart"
	OpStartMain      Op = "begin" // starts the main process when there is none
	OpStop           Op = "stop"
	OpHalt           Op = "halt"  // as HaltSignal; answered when there is no main process any more
	OpRaiseFence     Op = "raise" // raises the fence, and nothing else
	OpRecordBaseline Op = "baseline"
	OpWipe           Op = "wipe"
	OpLastModified   Op = "changed" // when something below Paths last was
	// These move files of the directory Paths[0] on the request's only stream. A
	// note says that they have begun.
	OpTar   Op = "tar"   // the program sends an archive
	OpUntar Op = "untar" // the program unpacks one
)

// Request asks for something. Many may be open on one session. One without an ID
// has no answer.
type Request struct {
	ID    uint64   `json:"id"`
	Op    Op       `json:"op"`
	Run   *Run     `json:"run,omitempty"`
	RunID string   `json:"key,omitempty"`
	Paths []string `json:"paths,omitempty"`
	Fence int64    `json:"fence,omitempty"` // of what changes the container
	// Streams is how many streams the request has, which either end may send on
	// from when it knows of the request until the answer.
	Streams int `json:"streams,omitempty"`
}

// Run is a runtime.Command with nothing left open, as it travels. A Key that
// is known already asks for the outcome of that run.
type Run struct {
	RunID       string            `json:"key"`
	Args        []string          `json:"args"`
	Environment map[string]string `json:"environment,omitempty"`
	User        string            `json:"user,omitempty"`
	Workdir     string            `json:"workdir,omitempty"`
	Stdin       []byte            `json:"stdin,omitempty"`
	Timeout     time.Duration     `json:"timeout"`
	Grace       time.Duration     `json:"grace"`
}

// Progress tells how a run gets on that has to wait its turn. One that starts at
// once has none.
type Progress struct {
	ID    uint64        `json:"id"`
	State ProgressState `json:"turn"`
}

// ProgressState is whether a run's turn has come.
type ProgressState string

// The turns of a run that has to wait.
const (
	ProgressQueued  ProgressState = "queued"
	ProgressStarted ProgressState = "started"
)

// Done is the last that the end that has asked says of a request with streams,
// after its Answer: nothing about it is on the way any more.
type Done struct {
	ID uint64 `json:"id"`
}

// Response ends a request. Without a Fault it went well.
type Response struct {
	ID     uint64          `json:"id"`
	Result *runtime.Result `json:"result,omitempty"`
	Time   time.Time       `json:"time,omitzero"` // of OpLastModified
	Error  *WireError      `json:"error,omitempty"`
}
