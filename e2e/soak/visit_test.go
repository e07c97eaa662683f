package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// come lets one tenant after the other claim and release until ctx ends. What
// may not happen is an error.
func (s *soak) come(ctx context.Context, random *rand.Rand) error {
	for ctx.Err() == nil {
		w := s.workloads[random.IntN(len(s.workloads))]
		tenant := w.crowd.take(random)
		for again := true; again; again = ctx.Err() == nil && random.IntN(2) == 0 {
			// A visit that has begun is brought to its end.
			if err := s.visit(context.WithoutCancel(ctx), random, w.id, tenant); err != nil {
				return fmt.Errorf("tenant %s of %s: %w", tenant, w.id, err)
			}
		}
		w.crowd.give(tenant, random)
	}
	return nil
}

// visit is one claim, from being asked for to being released.
func (s *soak) visit(ctx context.Context, random *rand.Rand, workload, tenant string) error {
	request := claim.Request{Workload: workload, Tenant: tenant, Wait: 20 * time.Second}
	if random.IntN(10) == 0 {
		s.leaveEarly(ctx, random, request)
	}
	c, err := s.claim(ctx, random, request)
	if err != nil {
		return s.refused(ctx, request, err)
	}
	s.tally.add("claims: active, " + string(c.Source))
	if err := s.enter(c); err != nil {
		return err
	}
	err = s.stay(ctx, random, request, c)
	s.leave(c)
	return errors.Join(err, s.release(ctx, random, c))
}

// leaveEarly asks and does not wait for the answer. The claim may come about
// all the same, for whoever asks next.
func (s *soak) leaveEarly(ctx context.Context, random *rand.Rand, r claim.Request) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(300))*time.Millisecond)
	defer cancel()
	if _, _, err := s.yard.Claims.Claim(ctx, r); err != nil {
		s.tally.add("claims: their caller left")
	}
}

// claim asks, now and then twice at once, which has to be the same claim.
func (s *soak) claim(ctx context.Context, random *rand.Rand, r claim.Request) (claim.Claim, error) {
	s.tally.add("claims: asked for")
	if random.IntN(10) > 0 {
		c, _, err := s.yard.Claims.Claim(ctx, r)
		return c, err
	}
	var both [2]claim.Claim
	var created [2]bool
	var g errgroup.Group
	for i := range both {
		g.Go(func() (err error) {
			both[i], created[i], err = s.yard.Claims.Claim(ctx, r)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		// One may have got it still, when the other came too early.
		return s.afterAll(ctx, both, err)
	}
	if both[0].ID != both[1].ID || created[0] && created[1] {
		return both[0], fmt.Errorf("asking twice at once makes two claims: %s and %s", both[0].ID, both[1].ID)
	}
	return both[0], nil
}

// afterAll is the claim that one of two got where the other did not.
func (s *soak) afterAll(ctx context.Context, both [2]claim.Claim, err error) (claim.Claim, error) {
	for _, c := range both {
		if c.ID == "" {
			continue
		}
		now, err := s.yard.DB.Claim(ctx, c.ID)
		if err != nil {
			return now, err
		}
		if now.State == claim.Active {
			return now, nil
		}
	}
	return claim.Claim{}, err
}

// reasons are why claims may fail for which nobody is to blame but the tenants
// and the trouble.
var reasons = []error{
	runtime.ErrUnavailable, runtime.ErrLost, runtime.ErrNotRunning, runtime.ErrNotFound,
	runtime.ErrDoomed, runtime.ErrNotClean, pool.ErrUnhealthy,
}

// refused judges why there is no claim, and that nothing of it is left.
func (s *soak) refused(ctx context.Context, r claim.Request, err error) error {
	reason, ok := reasonOf(err)
	if !ok {
		return fmt.Errorf("claim: %w", err)
	}
	s.tally.add("claims: " + reason)
	live, err := s.yard.DB.Claims(ctx, claim.Filter{Workload: r.Workload, Tenant: r.Tenant})
	if err != nil {
		return err
	}
	if len(live) > 0 {
		return fmt.Errorf("it was refused (%s) and has claim %s, which is %s", reason, live[0].ID, live[0].State)
	}
	return nil
}

// reasonOf is an error in few words, if it is one that may be.
func reasonOf(err error) (string, bool) {
	if u, ok := errors.AsType[*claim.UnavailableError](err); ok {
		return "refused, " + string(u.Reason), true
	}
	if h, ok := errors.AsType[*hooks.Error](err); ok {
		return fmt.Sprintf("failed, hook %s: %s", h.Run.Hook, h.Run.State), true
	}
	for _, reason := range reasons {
		if errors.Is(err, reason) {
			return "failed, " + reason.Error(), true
		}
	}
	return "", false
}

// enter notes that the tenant has the container to itself.
func (s *soak) enter(c claim.Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if holder, held := s.holders[c.Container]; held {
		return fmt.Errorf("claim %s has container %s, which %s has", c.ID, c.Container, holder)
	}
	s.holders[c.Container] = c.Tenant
	return nil
}

// leave ends that, before the release begins.
func (s *soak) leave(c claim.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holders, c.Container)
}

// stay holds the claim for a while, asks for it again, or sees its container
// being destroyed by an operator.
func (s *soak) stay(ctx context.Context, random *rand.Rand, r claim.Request, c claim.Claim) error {
	if err := flow.Pause(ctx, time.Duration(random.IntN(500))*time.Millisecond); err != nil {
		return err
	}
	switch random.IntN(20) {
	case 0:
		s.tally.add("trouble: containers destroyed by an operator")
		err := s.yard.Pools.DestroyContainer(ctx, c.Container, true)
		if err != nil && !errors.Is(err, runtime.ErrUnavailable) {
			return fmt.Errorf("destroy container %s by force: %w", c.Container, err)
		}
	case 1, 2, 3, 4:
		again, created, err := s.yard.Claims.Claim(ctx, r)
		if err != nil {
			return fmt.Errorf("ask again: %w", err)
		}
		if created || again.ID != c.ID || again.Container != c.Container {
			return fmt.Errorf("it has claim %s and gets %s (new: %t) when it asks again", c.ID, again.ID, created)
		}
	}
	return nil
}

// release gives the claim back, now and then by two at once or with the wish
// that nothing stays. Only an engine that is away may hold it up.
func (s *soak) release(ctx context.Context, random *rand.Rand, c claim.Claim) error {
	r := release.Request{Discard: random.IntN(10) == 0}
	times := 1 + random.IntN(10)/9
	begin := time.Now()
	for {
		var g errgroup.Group
		for range times {
			g.Go(func() error {
				got, err := s.yard.Releases.Release(ctx, c.ID, r)
				if err == nil && got.State != claim.Released {
					err = fmt.Errorf("it is %s", got.State)
				}
				return err
			})
		}
		err := g.Wait()
		if err == nil {
			s.tally.add("claims: released")
			return nil
		}
		if !errors.Is(err, runtime.ErrUnavailable) || time.Since(begin) > patience {
			return fmt.Errorf("release claim %s after %s: %w", c.ID, time.Since(begin), err)
		}
		s.tally.add("claims: releases tried again, the engine was away")
		if err := flow.Pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}
