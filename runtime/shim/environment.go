package shim

import (
	"context"

	"github.com/hostler/hostler/runtime"
)

// RestartWith implements runtime.Environments.RestartWith for a container whose
// main process runs, as Restart does.
func (s *Session) RestartWith(ctx context.Context, fence int64, environment map[string]string) error {
	return s.callWith(ctx, "restart", Request{Op: OpRestart, Fence: fence, Environment: environment})
}

// StartMainWith is StartMain with an environment over the container's.
func (s *Session) StartMainWith(ctx context.Context, fence int64, environment map[string]string) error {
	return s.callWith(ctx, "start main", Request{Op: OpStartMain, Fence: fence, Environment: environment})
}

// callWith is call for a request with an environment, which an older program
// would ignore.
func (s *Session) callWith(ctx context.Context, what string, r Request) error {
	if len(r.Environment) == 0 {
		_, err := s.call(ctx, what, r)
		return err
	}
	if err := runtime.CheckEnvironment(r.Environment); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, silentError(callTimeout))
	defer cancel()
	return s.withRetry(ctx, what, true, func(c *sessionConn) error {
		if !c.Has(FeatureEnvironment) {
			return runtime.ErrUnsupported
		}
		_, err := roundTrip(ctx, c, r)
		return err
	})
}
