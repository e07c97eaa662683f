package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/hostler/hostler/runtime"
)

// apiError turns the API server's error into one of package runtime, for the
// calls where a refusal has no meaning of its own: see refusal for those that
// make something. The client has repeated by then what the server asked it to
// repeat.
func (r *Runtime) apiError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isUnreachable(err) {
		return fmt.Errorf("%w: nothing answers at %s (%w): start the cluster, or check the kubeconfig",
			runtime.ErrUnavailable, r.config.Host, err)
	}
	for _, row := range errorKinds {
		if row.is(err) {
			return fmt.Errorf("%w: %w", row.err, err)
		}
	}
	return err
}

// errorKinds is what the server's kinds of error mean. One that fails inside, has
// too much to do or does not know us (any more) tells nothing about the
// container, so it counts as no answer. A conflict means that the pod is
// another one by now, or changes under our hands.
var errorKinds = []struct {
	is  func(error) bool
	err error
}{
	{apierrors.IsNotFound, runtime.ErrNotFound},
	{apierrors.IsResourceExpired, runtime.ErrUnavailable}, // a list that took too long to be read to its end
	{apierrors.IsGone, runtime.ErrNotFound},
	{apierrors.IsConflict, runtime.ErrUnavailable},
	{apierrors.IsInvalid, runtime.ErrInvalid},
	{apierrors.IsBadRequest, runtime.ErrInvalid},
	{apierrors.IsRequestEntityTooLargeError, runtime.ErrInvalid},
	{apierrors.IsUnauthorized, runtime.ErrUnavailable},
	{apierrors.IsForbidden, runtime.ErrUnavailable},
	{apierrors.IsTooManyRequests, runtime.ErrUnavailable},
	{apierrors.IsServerTimeout, runtime.ErrUnavailable},
	{apierrors.IsTimeout, runtime.ErrUnavailable},
	{apierrors.IsServiceUnavailable, runtime.ErrUnavailable},
	{apierrors.IsInternalError, runtime.ErrUnavailable},
	{isServerStatusError, runtime.ErrUnavailable},
}

// isServerStatusError is what a proxy or a server says that has no name for it.
func isServerStatusError(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code >= 500
}

// createError is fault for creating: there, what the server forbids is its
// judgement of the pod (a quota, a Pod Security level, an admission webhook),
// in words that the author of the workload needs. Whether it forbids the whole
// role is told by every other call as well.
func (r *Runtime) createError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: %w", runtime.ErrInvalid, err)
	}
	return r.apiError(ctx, err)
}

// isUnreachable says that the server could not be talked to, or broke off.
func isUnreachable(err error) bool {
	if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return false
	}
	_, noReply := errors.AsType[*networkError](err)
	_, network := errors.AsType[net.Error](err)
	return noReply || network || utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) ||
		utilnet.IsHTTP2ConnectionLost(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
