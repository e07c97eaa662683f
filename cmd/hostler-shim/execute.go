package main

import (
	"context"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// execute runs a command that nobody has asked for before, and records its
// outcome.
func (s *supervisor) execute(ctx context.Context, r *run, spec shim.Run) {
	result, err := s.perform(ctx, r, spec)
	if err != nil {
		s.runs.finish(r, shim.Answer{Fault: shim.NewFault(err)})
		return
	}
	s.runs.finish(r, shim.Answer{Result: &result})
}

func (s *supervisor) perform(ctx context.Context, r *run, spec shim.Run) (runtime.Result, error) {
	if err := s.await(ctx, r); err != nil {
		return runtime.Result{}, err
	}
	defer func() { <-s.workers.slots }()
	if s.main.get() != shim.MainRunning {
		return runtime.Result{}, notRunning
	}
	w, err := s.workers.take()
	if err != nil {
		return runtime.Result{}, err
	}
	defer s.workers.put(w)
	return w.run(ctx, s.complete(spec))
}

// notRunning refuses a command beside a main process that is not there.
var notRunning = (&shim.Fault{Code: shim.CodeNotRunning, Detail: "its main process does not run"}).Err()

// await takes a slot, in turn.
func (s *supervisor) await(ctx context.Context, r *run) error {
	select {
	case s.workers.slots <- struct{}{}:
		return nil
	default:
		close(r.queued)
	}
	defer close(r.begun)
	limit := time.NewTimer(shim.QueueBound)
	defer limit.Stop()
	busy := &shim.Fault{Code: shim.CodeBusy, Detail: "too many commands run in it"}
	select {
	case s.workers.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return busy.Err()
	case <-limit.C:
		return busy.Err()
	}
}

// complete fills in what is the container's. A path is meant from its root,
// which is a folder when the machine is shared.
func (s *supervisor) complete(spec shim.Run) shim.Run {
	environment := map[string]string{shim.MainVariable: strconv.Itoa(s.main.number())}
	for name, value := range spec.Environment {
		if name != shim.MainVariable {
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
