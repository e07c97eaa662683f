package shim

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/runtime"
)

// outputTimeout bounds how long a request for the output of a running command takes.
const outputTimeout = 3 * time.Second

// Output implements runtime.Outputs.Output. What fails here does not count against the
// container: only who looks on needs it.
func (s *Session) Output(ctx context.Context, runID string) (stdout, stderr runtime.Output, err error) {
	silent := fmt.Errorf("%w: no output within %s", runtime.ErrUnavailable, outputTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, outputTimeout, silent)
	defer cancel()
	var result runtime.Result
	answered := make(chan error, 1)
	go func() { // ends with ctx, or with the write of a frame, which has a timeout
		found, err := s.readOutput(ctx, runID)
		result = found
		answered <- err
	}()
	select {
	case err = <-answered:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return stdout, stderr, fmt.Errorf("read the output of a command: %w", err)
	}
	return result.Stdout, result.Stderr, nil
}

// readOutput asks for output until there is an answer.
func (s *Session) readOutput(ctx context.Context, runID string) (runtime.Result, error) {
	for wait := reopens.Retries(); ; {
		result, err := s.tryOutput(ctx, runID)
		if err == nil || !isRetryable(err) {
			return result, err
		}
		select {
		case <-time.After(wait.Next()):
		case <-ctx.Done():
			return result, context.Cause(ctx)
		}
	}
}

func (s *Session) tryOutput(ctx context.Context, runID string) (runtime.Result, error) {
	c, err := s.connectWith(ctx, func(_ context.Context, _ time.Time, err error) error { return err })
	if err != nil {
		return runtime.Result{}, err
	}
	if !c.Has(FeatureOutput) {
		return runtime.Result{}, runtime.ErrUnsupported
	}
	response, err := roundTrip(ctx, c, Request{Op: OpOutput, RunID: runID})
	if err != nil {
		return runtime.Result{}, err
	}
	return responseResult(response)
}
