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

// apiError converts the API server's error into one of package runtime, for the
// calls where a rejection has no meaning of its own. createError is for those
// that create something. The client has already retried what the server asked
// it to retry.
func (r *Runtime) apiError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isUnreachable(err) {
		return fmt.Errorf("%w: no response at %s (%w): start the cluster, or check the kubeconfig",
			runtime.ErrUnavailable, r.config.Host, err)
	}
	for _, row := range errorKinds {
		if row.is(err) {
			return fmt.Errorf("%w: %w", row.err, err)
		}
	}
	return err
}

// errorKinds maps the server's kinds of error. A server that fails internally,
// is overloaded or does not authenticate us (any more) reveals nothing about the
// container, so it counts as no response. A conflict means that the pod has been
// replaced, or is being changed concurrently.
var errorKinds = []struct {
	is  func(error) bool
	err error
}{
	{apierrors.IsNotFound, runtime.ErrNotFound},
	{apierrors.IsResourceExpired, runtime.ErrUnavailable}, // reading the list to its end took too long
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

// isServerStatusError reports whether a proxy or a server returned a status of
// 500 or above that has no kind of its own.
func isServerStatusError(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code >= 500
}

// createError is apiError for creating: there, what the server forbids is its
// judgment of the pod (a quota, a Pod Security level, an admission webhook), in
// words that the author of the workload needs. If it forbids the whole role,
// every other call reports that as well.
func (r *Runtime) createError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: %w", runtime.ErrInvalid, err)
	}
	return r.apiError(ctx, err)
}

// isUnreachable reports whether the server was unreachable, or disconnected.
func isUnreachable(err error) bool {
	if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return false
	}
	_, noReply := errors.AsType[*networkError](err)
	_, network := errors.AsType[net.Error](err)
	return noReply || network || utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) ||
		utilnet.IsHTTP2ConnectionLost(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
