package main

import (
	"context"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// execute runs a command that was not requested before, and records its
// outcome.
func (s *supervisor) execute(ctx context.Context, r *run, spec shim.Run, fence int64) {
	// A change that has begun since the request was admitted may have missed it.
	if s.admit(fence) != nil {
		s.asks.endCommand(r)
		s.runs.finish(r, lostResponse)
		return
	}
	result, err := s.runInWorker(ctx, r, spec)
	s.asks.endCommand(r)
	if err != nil {
		s.runs.finish(r, shim.Response{Error: shim.NewWireError(err)})
		return
	}
	s.runs.finish(r, shim.Response{Result: &result})
}

func (s *supervisor) runInWorker(ctx context.Context, r *run, spec shim.Run) (runtime.Result, error) {
	if err := s.acquireSlot(ctx, r); err != nil {
		return runtime.Result{}, err
	}
	defer func() { <-s.workers.slots }()
	if s.main.get() != shim.MainRunning {
		return runtime.Result{}, errMainNotRunning
	}
	spec = s.withDefaults(spec)
	w, err := s.workers.acquire(spec.User)
	if err != nil {
		return runtime.Result{}, err
	}
	defer s.workers.release(w)
	s.workers.setCommand(w, spec.RunID)
	defer s.workers.setCommand(w, "")
	s.runs.setWorker(r, w)
	defer s.runs.setWorker(r, nil)
	return w.run(ctx, spec)
}

// errMainNotRunning is the error for a command in a container whose main
// process is not running.
var errMainNotRunning = (&shim.WireError{Code: shim.CodeNotRunning, Detail: "the main process is not running"}).Err()

// acquireSlot waits in the queue for a slot.
func (s *supervisor) acquireSlot(ctx context.Context, r *run) error {
	select {
	case s.workers.slots <- struct{}{}:
		return nil
	default:
		close(r.queued)
	}
	defer close(r.started)
	limit := time.NewTimer(shim.QueueTimeout)
	defer limit.Stop()
	busy := &shim.WireError{Code: shim.CodeBusy, Detail: "too many commands are running"}
	select {
	case s.workers.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return busy.Err()
	case <-limit.C:
		return busy.Err()
	}
}

// withDefaults fills in the container's defaults. A path is relative to the
// container's root, which is a directory on a shared machine.
func (s *supervisor) withDefaults(spec shim.Run) shim.Run {
	environment := map[string]string{shim.MainPIDEnv: strconv.Itoa(s.main.currentPID())}
	for name, value := range spec.Environment {
		if name != shim.MainPIDEnv {
			environment[name] = value
		}
	}
	spec.Environment = environment
	if spec.User == "" {
		spec.User = s.config.User
	}
	if spec.Workdir == "" {
		spec.Workdir = s.config.Workdir
		return spec
	}
	spec.Workdir = filepath.Join(s.config.Root, spec.Workdir)
	return spec
}
