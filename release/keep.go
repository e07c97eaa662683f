package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/runtime"
)

// How long after a failed upload the release is tried again: doubled each
// time, from the first to the longest.
const (
	firstUpload   = 5 * time.Second
	longestUpload = 10 * time.Minute
)

// keeps says whether the tenant's state is to be taken into a snapshot.
func (m *releasing) keeps() bool {
	return m.w.Sync != nil && m.w.Sync.Policy.OnRelease && !m.claim.Discard
}

// upload takes the tenant's state into a snapshot. Until that is done nothing
// else happens to the container: it holds the last copy.
func (m *releasing) upload(ctx context.Context) error {
	c, _, err := m.claims.Keeper.Upload(ctx, m.claim, m.w, "release")
	if errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrLost) {
		// Its files are there. They are read by what runs in it.
		if err = m.rt.Start(ctx, m.claim.Container); err == nil {
			c, _, err = m.claims.Keeper.Upload(ctx, m.claim, m.w, "release")
		}
		m.spoiled = "it had ended before its tenant left"
	}
	m.claim = c
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx) // it was cut off, which is no fault of the sink
	case errors.Is(err, runtime.ErrNotFound):
		// Nothing is left to be kept.
		m.spoiled = "it disappeared"
		m.warnings = append(m.warnings, "the container disappeared with what its tenant changed since the last snapshot: "+err.Error())
		return nil
	case errors.Is(err, runtime.ErrUnavailable):
		return fmt.Errorf("take the tenant's state into a snapshot: %w", err)
	}
	if _, ours := errors.AsType[*claim.SyncError](err); ours {
		return err
	}
	return &claim.SyncError{Direction: "upload", Err: err}
}

// postpone keeps the claim with its container, until the upload can be done or
// somebody says that the state need not be kept.
func (m *releasing) postpone(ctx context.Context, cause *claim.SyncError) (claim.Claim, error) {
	wait := min(firstUpload<<min(m.claim.Failures, 20), longestUpload)
	at := time.Now().UTC().Add(wait)
	c, err := m.store.MoveClaim(ctx, claim.Move{
		ID: m.claim.ID, From: []claim.State{claim.Releasing}, To: claim.ReleaseFailed,
		Set: func(c *claim.Claim) {
			c.Reason, c.RetryAt = cause.Error(), &at
			c.Failures++
		},
		Events: []activity.Event{{
			Type:    activity.ClaimReleaseFailed,
			Message: "claim keeps its container, because its tenant's state could not be kept: " + cause.Error(),
			Data:    activity.Data(map[string]any{"error": cause.Error(), "retry_at": at}),
		}},
	})
	if err != nil {
		return m.claim, fmt.Errorf("record that the release failed: %w", errors.Join(err, cause))
	}
	m.claim = c
	return c, &FailedError{Claim: c, Err: cause}
}

// FailedError says that a claim could not be released: its container and all
// that is in it stay as they are, and the release is tried again at
// Claim.RetryAt. Whoever does not want the state can release with Discard.
type FailedError struct {
	Claim claim.Claim
	Err   error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("claim %s keeps its container: %v", e.Claim.ID, e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }

// retry tries releases again whose time has come, and says when to look again.
func (s *Service) retry(ctx context.Context, all *rounds, listed map[string]bool) (time.Time, error) {
	now := time.Now()
	next := now.Add(longestLook)
	left, err := s.store.Claims(ctx, claim.Filter{States: []claim.State{claim.ReleaseFailed}})
	if err != nil {
		return next, fmt.Errorf("list the releases that failed: %w", err)
	}
	for _, c := range left {
		listed[c.ID] = true
		at := now
		if c.RetryAt != nil {
			at = all.due(c.ID, *c.RetryAt)
		}
		if !at.After(now) {
			all.begin(c.ID, c.Workload, func() {
				_, err := s.Release(ctx, c.ID, Request{Reason: "its release is tried again", Discard: c.Discard})
				s.report(ctx, c, err)
			})
		} else if at.Before(next) {
			next = at
		}
	}
	return next, nil
}
