package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/release"
)

// listInterrupted adds the interrupted releases of this server. Package release
// reports when there is another one.
func (s *Scheduler) listInterrupted(ctx context.Context) (never time.Time, err error) {
	releasing, err := s.store.Claims(ctx, claim.Filter{States: []claim.State{claim.Releasing}})
	if err != nil {
		return never, fmt.Errorf("list the releases in progress: %w", err)
	}
	for _, c := range releasing {
		if s.isInterrupted(c) {
			s.resumes.add(c)
		}
	}
	return never, nil
}

// isInterrupted reports whether a claim is releasing, and neither its owner nor a
// call on this server works on it. These report their errors.
func (s *Scheduler) isInterrupted(c claim.Claim) bool {
	return c.State == claim.Releasing && !s.claims.IsOwnedByPeer(c) && !s.releases.IsInProgress(c.ID)
}

// resume completes an interrupted release.
func (s *Scheduler) resume(ctx context.Context, id string) (never time.Time, err error) {
	c, err := s.store.Claim(ctx, id)
	if err == nil && s.isInterrupted(c) {
		_, err = s.releases.Release(ctx, id, release.Request{Reason: c.Reason, Discard: c.Discard})
	}
	return never, s.releaseResult(ctx, id, err)
}

// listRetries adds the failed releases that are due for a retry, and returns when the
// next one is.
func (s *Scheduler) listRetries(ctx context.Context) (next time.Time, err error) {
	now := time.Now()
	failed, err := s.store.Claims(ctx, claim.Filter{States: []claim.State{claim.ReleaseFailed}})
	if err != nil {
		return next, fmt.Errorf("list the failed releases: %w", err)
	}
	for _, c := range failed {
		at, _, err := s.nextRetry(ctx, c)
		switch {
		case err != nil:
			s.due.add(c) // so that its error is reported, and keeps no other claim
		case at.After(now):
			next = earliest(next, at)
		case at.IsZero():
		default:
			s.due.add(c)
		}
	}
	return next, nil
}

// retry repeats a failed release if that is due, and returns when it is.
func (s *Scheduler) retry(ctx context.Context, c claim.Claim, now time.Time) (time.Time, error) {
	at, r, err := s.nextRetry(ctx, c)
	if err != nil || at.IsZero() || at.After(now) {
		return at, err
	}
	_, err = s.releases.Release(ctx, c.ID, r)
	return time.Time{}, err
}

// nextRetry returns the next automatic request for a failed release, and when:
// a retry, or a release without the state. The time is zero for neither.
func (s *Scheduler) nextRetry(ctx context.Context, c claim.Claim) (time.Time, release.Request, error) {
	var at time.Time
	if c.RetryAt != nil {
		at = *c.RetryAt
	}
	retryRequest := release.Request{Reason: "release retry", Discard: c.Discard}
	if c.Discard || c.FailureReason != claim.FailedByTenant || c.FailedAt == nil {
		return at, retryRequest, nil
	}
	w, err := s.current(ctx, c.Workload)
	if err != nil || w.Pool.ReleaseFailedTTL <= 0 {
		return at, retryRequest, err
	}
	ttl := w.Pool.ReleaseFailedTTL
	end := c.FailedAt.Add(ttl)
	if !at.IsZero() && at.Before(end) {
		return at, retryRequest, nil
	}
	return end, release.Request{
		Reason: fmt.Sprintf("state upload failed for %s", ttl), SkipUpload: true,
		OnlyIf: func(now claim.Claim) bool {
			return now.State == claim.ReleaseFailed && now.FailureReason == claim.FailedByTenant && now.Failures >= c.Failures
		},
	}, nil
}
