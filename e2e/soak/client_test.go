package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/flow"
)

// runClient claims and releases for one tenant after the other until ctx ends. It
// returns an error if anything unexpected happens.
func (s *soak) runClient(ctx context.Context, random *rand.Rand) error {
	for ctx.Err() == nil {
		w := s.workloads[random.IntN(len(s.workloads))]
		tenant := w.tenants.acquire(random)
		for again := true; again; again = ctx.Err() == nil && random.IntN(2) == 0 {
			// A claim that has started is completed.
			if err := s.claimAndRelease(context.WithoutCancel(ctx), random, w, tenant); err != nil {
				return fmt.Errorf("tenant %s of %s: %w", tenant, w.id, err)
			}
		}
		w.tenants.release(tenant, random)
	}
	return nil
}

// claimAndRelease makes one claim, holds it for a while, and releases it.
func (s *soak) claimAndRelease(ctx context.Context, random *rand.Rand, w *workload, tenant string) error {
	request := request{w, tenant}
	if random.IntN(10) == 0 {
		s.abandonRequest(ctx, random, request)
	}
	begun := time.Now()
	c, err := s.claim(ctx, random, request)
	if err != nil {
		return s.checkRefusal(ctx, request, err)
	}
	s.counters.add("claims: active, %s", c.Source)
	s.recordGranted(request, time.Since(begun))
	if err := s.recordHolder(c); err != nil {
		return err
	}
	err = s.holdClaim(ctx, random, request, c)
	s.removeHolder(c)
	return errors.Join(err, s.release(ctx, random, request, c))
}

// abandonRequest sends a claim and cancels it. The claim may succeed all the same,
// and is then returned to the next request.
func (s *soak) abandonRequest(ctx context.Context, random *rand.Rand, r request) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(300))*time.Millisecond)
	defer cancel()
	if _, err := s.requestClaim(ctx, r); err != nil {
		s.counters.add("claims: canceled by the caller")
	}
}

// request is a claim request of a tenant.
type request struct {
	workload *workload
	tenant   string
}

// answer is the response to a claim.
type answer struct {
	client.Claim
	created bool
}

// claimWait is how long a tenant waits in the queue. Test machines are busy, and
// there are three times as many waiting tenants as containers.
const claimWait = time.Minute

// requestClaim claims, with retries while the server is unavailable.
func (s *soak) requestClaim(ctx context.Context, r request) (answer, error) {
	return call(ctx, s.server, func(at *client.Client) (answer, error) {
		c, created, err := at.Claim(ctx, r.workload.id, r.tenant, claimWait)
		return answer{c, created}, err
	})
}

// claim claims, sometimes twice concurrently, which has to return the same claim.
func (s *soak) claim(ctx context.Context, random *rand.Rand, r request) (client.Claim, error) {
	s.counters.add("claims: requested")
	if random.IntN(10) > 0 {
		c, err := s.requestClaim(ctx, r)
		return c.Claim, err
	}
	var both [2]answer
	var g errgroup.Group
	for i := range both {
		g.Go(func() (err error) {
			both[i], err = s.requestClaim(ctx, r)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		// One request may have succeeded where the other has failed.
		return s.claimOfEither(ctx, both, err)
	}
	if both[0].ID != both[1].ID || both[0].created && both[1].created {
		return both[0].Claim, fmt.Errorf("two concurrent requests made two claims: %s and %s", both[0].ID, both[1].ID)
	}
	return both[0].Claim, nil
}

// claimOfEither returns the active claim of one of two requests, or err.
func (s *soak) claimOfEither(ctx context.Context, both [2]answer, err error) (client.Claim, error) {
	for _, c := range both {
		if c.ID == "" {
			continue
		}
		now, err := call(ctx, s.server, func(at *client.Client) (client.Claim, error) { return at.GetClaim(ctx, c.ID) })
		if err != nil {
			return now, err
		}
		if now.State == client.ClaimActive {
			return now, nil
		}
	}
	return client.Claim{}, err
}

// allowedRefusals are the errors of claims that tenants and disruptions may cause.
var allowedRefusals = []client.Code{
	client.CodePoolExhausted, client.CodePoolNotReady, client.CodeEngineUnavailable, client.CodeUnhealthy, client.CodeContainerNotFound, client.CodeHookFailed, client.CodeStartFailed,
}

// checkRefusal checks that a claim failed for an allowed reason, and that nothing
// of it is left.
func (s *soak) checkRefusal(ctx context.Context, r request, err error) error {
	reason, ok := reasonOf(err)
	if !ok {
		return fmt.Errorf("claim: %w", err)
	}
	s.counters.add("claims: %s", reason)
	s.recordDenied(r, reason, err)
	live, err := call(ctx, s.server, func(at *client.Client) ([]client.Claim, error) {
		return at.Claims(ctx, client.ClaimFilter{Workload: r.workload.id, Tenant: r.tenant})
	})
	if err != nil {
		return err
	}
	if len(live) > 0 {
		return fmt.Errorf("the claim failed (%s), but there is claim %s, which is %s", reason, live[0].ID, live[0].State)
	}
	return nil
}

// reasonOf returns a short description of an error, and whether the error is
// allowed.
func reasonOf(err error) (string, bool) {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return "", false
	}
	text := string(e.Code)
	switch {
	case e.Run != nil:
		text += fmt.Sprintf(", hook %s: %s", e.Run.Hook, e.Run.State)
	case e.Reason != "":
		text += ", " + e.Reason
	case e.Step != "":
		text += ", at " + e.Step
	}
	return text, slices.Contains(allowedRefusals, e.Code)
}

// recordHolder records the holder of a container, and returns an error if there
// is one already.
func (s *soak) recordHolder(c client.Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if holder, held := s.holders[c.Container]; held {
		return fmt.Errorf("claim %s has container %s, which %s holds", c.ID, c.Container, holder)
	}
	s.holders[c.Container] = c.Tenant
	return nil
}

// removeHolder removes the record, before the release starts.
func (s *soak) removeHolder(c client.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holders, c.Container)
}

// holdClaim holds the claim for a while. It sometimes claims again, or destroys
// the container as an operator does.
func (s *soak) holdClaim(ctx context.Context, random *rand.Rand, r request, c client.Claim) error {
	if err := flow.Sleep(ctx, time.Duration(random.IntN(r.workload.maxHold))*time.Millisecond); err != nil {
		return err
	}
	switch n := random.IntN(20); {
	case n == 0 && !s.onlyTenantFaults.Load():
		s.counters.add("disruptions: containers destroyed by an operator")
		_, err := call(ctx, s.server, func(at *client.Client) (client.Container, error) { return at.DestroyContainer(ctx, c.Container, true) })
		if err != nil && codeOf(err) != client.CodeEngineUnavailable {
			return fmt.Errorf("destroy container %s by force: %w", c.Container, err)
		}
	case n < 5:
		again, err := s.requestClaim(ctx, r)
		if err != nil {
			return fmt.Errorf("claim again: %w", err)
		}
		if again.created || again.ID != c.ID || again.Container != c.Container {
			return fmt.Errorf("it has claim %s, and the second request returned %s (created: %t)", c.ID, again.ID, again.created)
		}
	}
	return nil
}

// release releases the claim, sometimes twice concurrently or with discard. Only
// an unavailable engine, or the state of a hostile tenant, may delay it.
func (s *soak) release(ctx context.Context, random *rand.Rand, r request, c client.Claim) error {
	discard := random.IntN(10) == 0
	times := 1 + random.IntN(10)/9
	begin := time.Now()
	for {
		var g errgroup.Group
		for range times {
			g.Go(func() error {
				got, err := call(ctx, s.server, func(at *client.Client) (client.Claim, error) { return at.Release(ctx, c.ID, discard) })
				if err == nil && got.State != client.ClaimReleased {
					err = fmt.Errorf("it is %s", got.State)
				}
				return err
			})
		}
		err := g.Wait()
		if err == nil {
			s.counters.add("claims: released")
			s.recordReleased(r, c, discard, time.Since(begin))
			return nil
		}
		switch {
		case codeOf(err) == client.CodeSyncFailed && r.workload.isAttacker(r.tenant):
			discard = true // no other tenant needs the state
			s.counters.add("claims: failed uploads of hostile tenants")
		case codeOf(err) != client.CodeEngineUnavailable || time.Since(begin) > serverTimeout:
			return fmt.Errorf("release claim %s after %s: %w", c.ID, time.Since(begin), err)
		default:
			s.counters.add("claims: releases retried, engine unavailable")
		}
		if err := flow.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}
