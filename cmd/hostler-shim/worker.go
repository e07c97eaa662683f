package main

import (
	"errors"
	"os"
	"sync"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// workerSocket is the descriptor on which init communicates with a worker. It
// uses the same frames as a session, without the handshake.
const workerSocket = 3

// runWorker serves init until init closes the connection. It runs one command
// at a time.
//
//	hostler-shim worker [shared]
//
// It disables dumping whatever its user is: while a command is started, one of
// its threads has the command's user. What a tenant may change in its files in
// /proc ends with the process.
func runWorker(args []string) int {
	if len(args) == 0 {
		if err := switchToShimUser(inheritNoCaps); err != nil {
			logError("start a worker", err)
			return exitFailed
		}
	}
	disableDump()
	// Orphans of a command become children of this process, not of init.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		logError("become a subreaper", err)
		return exitFailed
	}
	unix.CloseOnExec(workerSocket)
	closeOnExecInherited()
	if err := unix.SetNonblock(workerSocket, true); err != nil {
		logError("open the socket to init", err)
		return exitFailed
	}
	w := &worker{socket: os.NewFile(workerSocket, "init")}
	if len(args) == 0 { // else the counter is that of the machine
		w.oom = openOOMCounter(oomFiles)
	}
	err := w.serve()
	// Init has exited or violated the protocol: end all processes of this
	// worker.
	w.cancel()
	proctree.KillDescendants(os.Getpid(), shim.KillTimeout)
	if err != nil {
		return exitFailed
	}
	return 0
}

// worker runs commands for init.
type worker struct {
	socket *os.File
	oom    oomCounter

	writeMu sync.Mutex // guards writing to socket

	// mu guards current.
	mu      sync.Mutex
	current *job
}

// serve handles init's requests.
func (w *worker) serve() error {
	for {
		f, err := shim.ReadFrame(w.socket, shim.MaxFrame)
		if err != nil {
			return err
		}
		if handle, ok := messageHandlers[f.Kind]; ok {
			if err := w.handle(f, handle); err != nil {
				return err
			}
			continue
		}
		request, err := shim.Decode[shim.Request](f, shim.KindRequest)
		if err != nil {
			return err
		}
		terminal, streams := streamOps[request.Op]
		switch {
		case streams && request.Run != nil:
			started := func() { w.write(shim.KindProgress, shim.Progress{ID: request.ID, State: shim.ProgressStarted}) }
			w.startJob(request.ID, newStreamJob(*request.Run, w.oom, terminal, started))
		case request.Op == shim.OpRun && request.Run != nil:
			w.startJob(request.ID, newJob(*request.Run, w.oom))
		case request.Op == shim.OpCancel:
			w.cancel()
		default:
			return shim.ErrProtocol
		}
	}
}

// startJob runs a command and responds when it has ended.
func (w *worker) startJob(id uint64, j *job) {
	w.mu.Lock()
	w.current = j
	w.mu.Unlock()
	go func() { // ends with the command
		response := shim.Response{ID: id}
		result, err := j.run()
		if err != nil {
			response.Error = shim.NewWireError(err)
		} else {
			response.Result = &result
		}
		w.write(shim.KindResponse, response)
	}()
}

// write sends a message to init. That init has exited is not an error: the main
// process has, whose last output it would follow.
func (w *worker) write(kind shim.Kind, message any) {
	w.writeMu.Lock()
	defer w.writeMu.Unlock()
	err := shim.WriteFrame(w.socket, kind, message)
	if err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		logError("send a message to init", err)
	}
}

// handle handles a message for the command that runs, if there is one.
func (w *worker) handle(f shim.Frame, handle func(w *worker, j *job, f shim.Frame) error) error {
	w.mu.Lock()
	j := w.current
	w.mu.Unlock()
	if j == nil {
		return shim.ErrProtocol
	}
	return handle(w, j, f)
}

// cancel ends the running command, if any.
func (w *worker) cancel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil {
		w.current.cancel()
	}
}
