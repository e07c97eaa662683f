package main

import (
	"os"
	"sync"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// workerSocket is the descriptor on which init speaks to a worker: the same
// frames as on a session, without the greeting.
const workerSocket = 3

// runWorker serves init until init hangs up. It runs one command at a time.
//
//	hostler-shim worker [shared]
//
// It is hidden whoever it is: while a command is started, a thread of it has the
// command's user. What a tenant may change in its files in /proc ends with it.
func runWorker(args []string) int {
	if len(args) == 0 {
		if err := switchToShimUser(inheritNoCaps); err != nil {
			logError("start a worker", err)
			return exitFailed
		}
	}
	disableDump()
	// Whatever a command leaves behind becomes our child, not init's.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		logError("become a subreaper", err)
		return exitFailed
	}
	unix.CloseOnExec(workerSocket)
	if err := unix.SetNonblock(workerSocket, true); err != nil {
		logError("open the socket to init", err)
		return exitFailed
	}
	w := &worker{socket: os.NewFile(workerSocket, "init")}
	err := w.serve()
	// Init is gone, or talks nonsense: so must everything of ours.
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

	writeMu sync.Mutex // guards writing to socket

	// mu guards current.
	mu      sync.Mutex
	current *job
}

// serve reads init's requests.
func (w *worker) serve() error {
	for {
		f, err := shim.ReadFrame(w.socket, shim.MaxFrame)
		if err != nil {
			return err
		}
		request, err := shim.Decode[shim.Request](f, shim.KindRequest)
		if err != nil {
			return err
		}
		switch {
		case request.Op == shim.OpRun && request.Run != nil:
			w.startJob(request.ID, *request.Run)
		case request.Op == shim.OpCancel:
			w.cancel()
		default:
			return shim.ErrProtocol
		}
	}
}

// startJob runs a command and answers when it is over.
func (w *worker) startJob(id uint64, run shim.Run) {
	j := newJob(run)
	w.mu.Lock()
	w.current = j
	w.mu.Unlock()
	go func() { // ends with the command, which is bounded
		response := shim.Response{ID: id}
		result, err := j.run()
		if err != nil {
			response.Error = shim.NewWireError(err)
		} else {
			response.Result = &result
		}
		w.writeMu.Lock()
		defer w.writeMu.Unlock()
		if err := shim.WriteFrame(w.socket, shim.KindResponse, response); err != nil {
			logError("answer init", err)
		}
	}()
}

// cancel ends the command that runs, if any.
func (w *worker) cancel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil {
		w.current.cancel()
	}
}
