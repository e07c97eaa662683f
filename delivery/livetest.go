package delivery

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
)

// Test runs the hooks of a point, as the workload is applied now, once in the
// container of a claim: each in the order of the file and without a retry, and
// those after a failure as the point would. The runs are recorded as tests. They
// have the rights and the bounds of commands for events: they start only while
// the claim is active, a flow of the container ends them, and what they captured
// is kept for no other run.
//
// If ctx ends, the command that runs is ended. The runs so far are returned with
// an error. ErrClaimEnded and ErrClaimPending are those of a claim that is not
// active, and ErrTestRunning of one that is being tested.
func (s *Service) Test(ctx context.Context, p hooks.Point, subject runner.Subject) ([]hooks.Run, error) {
	if !s.beginTest(subject.Claim) {
		return nil, ErrTestRunning
	}
	defer s.endTest(subject.Claim)
	w, _, err := s.o.Workloads.Current(ctx, subject.Workload)
	if err != nil {
		return nil, err
	}
	runs, captured, ended := []hooks.Run{}, map[string]string{}, ""
	for i, h := range w.Hooks[p] {
		if h.Disabled {
			continue
		}
		run, attempt, err := s.o.TestAttempt(ctx, p, i, w, subject, captured)
		if err != nil {
			return runs, err
		}
		if reason := testSkipReason(h, attempt, ended); reason != "" {
			run, err = s.skipTest(ctx, run, reason)
		} else {
			run, err = s.runTest(ctx, h, run, attempt, captured)
		}
		if err != nil {
			return runs, err
		}
		runs = append(runs, run)
		switch {
		case ended != "" || run.State == hooks.Skipped:
		case run.Stopped:
			ended = fmt.Sprintf("hook %q stopped the point", h.Name)
		case run.State != hooks.Succeeded && !continues(h):
			ended = fmt.Sprintf("hook %q of the same point failed", h.Name)
		}
	}
	return runs, nil
}

// beginTest reports whether no other test of the claim is running on this server.
// The store refuses one that runs a hook on another server.
func (s *Service) beginTest(claim string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tested[claim] {
		return false
	}
	s.tested[claim] = true
	return true
}

func (s *Service) endTest(claim string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tested, claim)
}

// testSkipReason returns why a hook is not run, or "". ended is why the rest of
// the point is skipped.
func testSkipReason(h hooks.Hook, a runner.Attempt, ended string) string {
	if ended == "" && !h.Condition.Holds(a.Lookup) {
		return "its condition is false: " + h.Condition.String()
	}
	return ended
}

// continues reports whether the point continues after the hook has failed.
func continues(h hooks.Hook) bool {
	return h.OnError == hooks.Continue || h.OnError == hooks.Retry && h.OnExhausted == hooks.Continue
}

func (s *Service) skipTest(ctx context.Context, run hooks.Run, reason string) (hooks.Run, error) {
	now := time.Now()
	run.State, run.Error, run.StartedAt, run.EndedAt = hooks.Skipped, reason, now, &now
	return run, s.store.RunSkipped(ctx, run)
}

// runTest performs one attempt, and adds what it captured to captured.
func (s *Service) runTest(ctx context.Context, h hooks.Hook, run hooks.Run, a runner.Attempt, captured map[string]string) (hooks.Run, error) {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.addCommand(run, cancel)() // before the start is recorded, as in execute
	run.State, run.StartedAt = hooks.Running, time.Now()
	permission, err := s.store.StartTest(ctx, run)
	if err != nil {
		return run, err
	}
	a.Fence = permission.Fence
	res := confirmed(s.o.Executors.Of(run.Kind).Execute(work, a))
	maps.Copy(captured, res.Captured)
	run = runner.EndedAtPoint(h, run, res, time.Now())
	run.Values = nil // no other run may have them
	return run, s.recordTest(ctx, run)
}

// testRecordTimeout limits how long recording the end of a test may take.
const testRecordTimeout = 30 * time.Second

// recordTest records the end of a test, also after ctx has ended.
func (s *Service) recordTest(ctx context.Context, run hooks.Run) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), testRecordTimeout)
	defer cancel()
	for retries := recordRetries.Retries(); ; {
		err := s.store.RunEnded(ctx, run)
		if err == nil || retries.Sleep(ctx) != nil {
			return err
		}
	}
}
