package shim

import (
	"time"

	"github.com/hostler/hostler/runtime"
)

// The messages of the protocol. Containers outlive the server that created
// them, and their program stays the same. So every container has a version,
// that of the server that created it, in the engine's record, where nothing in
// the container can change it. A session uses that version: the server's
// Handshake contains it, and a program with another version refuses it. A reply
// with another version comes from a tainted container.
//
// A change of the protocol, such as a request that an older program does not
// know, increases Version. All changes until 0.1.0 are one version, the one after
// runtimetest.PreviousVersion. The server continues to speak
// Previous, for containers that are claimed: what differs depends on
// sessionConn.version, where the server sends or reads it. The program speaks
// only its own Version. Versions 1 and 2 do not differ. Version 3 adds OpServe and
// OpAsk. The handshake messages can never change, up to and including their versions.

// Handshake is the first message of a client.
type Handshake struct {
	Version  int      `json:"version"` // from the container's record
	Nonce    []byte   `json:"nonce"`
	Features []string `json:"features,omitempty"`
}

// MainState is the state of the main process.
type MainState string

// The states of the main process.
const (
	MainRunning MainState = "running"
	MainFailed  MainState = "failed"  // it never started; HandshakeReply.Error has the reason
	MainStopped MainState = "stopped" // a wipe ended it
)

// HandshakeReply answers a Handshake.
type HandshakeReply struct {
	Version  int        `json:"version"`
	Nonce    []byte     `json:"nonce"`
	Features []string   `json:"features,omitempty"`
	BootID   string     `json:"boot"` // new each time the container starts
	Main     MainState  `json:"main,omitempty"`
	Error    *WireError `json:"error,omitempty"`
}

// Op is the operation that a Request asks for.
type Op string

// The operations.
const (
	OpRun            Op = "run"
	OpWaitResult     Op = "outcome" // waits for the run RunID, which another request started
	OpOutput         Op = "output"  // what the run RunID has printed so far; needs FeatureOutput
	OpCancel         Op = "cancel"  // ends the run RunID as its timeout would; has no response
	OpRestart        Op = "restart"
	OpStartMain      Op = "begin" // starts the main process, unless it was started with this fence
	OpStop           Op = "stop"
	OpHalt           Op = "halt" // as HaltSignal; answered when the main process has exited
	OpRecordBaseline Op = "baseline"
	OpWipe           Op = "wipe"
	OpLastModified   Op = "changed" // when something below Paths last changed
	// These transfer files of the directory Paths[0] on the request's only
	// stream. A progress message confirms the start.
	OpTar   Op = "tar"   // the program sends an archive
	OpUntar Op = "untar" // the program unpacks one
	// As those, with the messages of package tree in both directions. Both need
	// FeatureTrees.
	OpScan  Op = "scan"
	OpWrite Op = "write"

	// These need FeatureCommands. OpCommand starts the command RunID, unless it is
	// known or there is no Run, and attaches to it, until the response. The others
	// list the commands of the claim with that Fence, end one, and end all.
	OpCommand     Op = "command"
	OpCommands    Op = "commands"
	OpEndCommand  Op = "end_command"
	OpEndCommands Op = "end_commands"
	// OpDial connects the request's only stream to a Port of the container's loopback
	// interface. A progress message confirms the connection. The response follows
	// its end. OpClosePorts closes those of smaller fences. Both need FeaturePorts.
	OpDial       Op = "dial"
	OpClosePorts Op = "close_ports"

	// OpServe informs the program that its claim has this Fence, and that requests
	// of the claim may be sent on this session.
	OpServe Op = "serve"
	// OpAsk is a request of a process in the container. The program sends it, and
	// no other operation. Between a process and the program it is the only one.
	OpAsk Op = "ask"
)

// Request asks for an operation. Many may be open on one session. A request
// without an ID has no response.
type Request struct {
	ID    uint64   `json:"id"`
	Op    Op       `json:"op"`
	Run   *Run     `json:"run,omitempty"`
	RunID string   `json:"key,omitempty"`
	Paths []string `json:"paths,omitempty"`
	Port  int      `json:"port,omitempty"` // for OpDial
	// Environment is for OpRestart and OpStartMain: that of the main process, over
	// the container's. It needs FeatureEnvironment.
	Environment map[string]string `json:"environment,omitempty"`
	// Fence is for operations that change the container. OpRun, OpUntar
	// and OpWrite may have none.
	Fence int64 `json:"fence,omitempty"`
	// Streams is the number of the request's streams. Either end may send on
	// them from when it knows of the request until the response.
	Streams int `json:"streams,omitempty"`
	// Window is that of the streams in bytes, 0 for Window. It needs FeatureCommands.
	Window  int             `json:"window,omitempty"`
	Command *CommandRequest `json:"command,omitempty"` // for OpCommand
	Grace   time.Duration   `json:"grace,omitempty"`   // for OpEndCommands
	Live    bool            `json:"live,omitempty"`    // for OpScan: see tree.ScanOptions
	// Requests is for OpRun and OpWaitResult: until the command is over, its
	// processes may send requests on this session, with the Fence.
	Requests bool `json:"requests,omitempty"`
	// Ask is for OpAsk. Its Fence is the one that the program had when it received
	// it from the process, which sends none.
	Ask *Ask `json:"ask,omitempty"`
}

// Run is a runtime.Command with all defaults filled in, as sent. If RunID is
// already known, the request waits for the outcome of that run. For OpCommand, a
// Timeout of 0 means none, and the ID is that of the Request.
type Run struct {
	RunID       string            `json:"key"`
	Args        []string          `json:"args"`
	Script      []byte            `json:"script,omitempty"` // with FeatureScripts
	Environment map[string]string `json:"environment,omitempty"`
	User        string            `json:"user,omitempty"`
	Workdir     string            `json:"workdir,omitempty"`
	Stdin       []byte            `json:"stdin,omitempty"`
	Timeout     time.Duration     `json:"timeout"`
	Grace       time.Duration     `json:"grace"`
	// Limits needs FeatureLimits.
	Limits runtime.ProcessLimits `json:"limits,omitzero"`
}

// Progress reports the progress of a run that waits in the queue. A run that
// starts immediately has none.
type Progress struct {
	ID    uint64        `json:"id"`
	State ProgressState `json:"turn"`
}

// ProgressState reports whether a run is queued or has started.
type ProgressState string

// The states of a run that waits in the queue.
const (
	ProgressQueued  ProgressState = "queued"
	ProgressStarted ProgressState = "started"
)

// Done is the requester's last message for a request with streams, after its
// Response: no further frame for it is in transit.
type Done struct {
	ID uint64 `json:"id"`
}

// Response ends a request. Without an Error, the request succeeded.
type Response struct {
	ID     uint64          `json:"id"`
	Result *runtime.Result `json:"result,omitempty"`
	Time   time.Time       `json:"time,omitzero"` // for OpLastModified
	Error  *WireError      `json:"error,omitempty"`
	Answer *Answer         `json:"answer,omitempty"` // to OpAsk, in place of an Error
	// Commands is for OpCommands.
	Commands CommandList `json:"commands,omitempty"`
}
