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

// runClient lets one tenant after the other claim and release until ctx ends. What
// may not happen is an error.
func (s *soak) runClient(ctx context.Context, random *rand.Rand) error {
	for ctx.Err() == nil {
		w := s.workloads[random.IntN(len(s.workloads))]
		tenant := w.tenants.acquire(random)
		for again := true; again; again = ctx.Err() == nil && random.IntN(2) == 0 {
			// A visit that has begun is brought to its end.
			if err := s.claimAndRelease(context.WithoutCancel(ctx), random, w, tenant); err != nil {
				return fmt.Errorf("tenant %s of %s: %w", tenant, w.id, err)
			}
		}
		w.tenants.release(tenant, random)
	}
	return nil
}

// claimAndRelease is one claim, from being asked for to being released.
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

// abandonRequest asks and does not wait for the answer. The claim may come about
// all the same, for whoever asks next.
func (s *soak) abandonRequest(ctx context.Context, random *rand.Rand, r request) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(300))*time.Millisecond)
	defer cancel()
	if _, err := s.requestClaim(ctx, r); err != nil {
		s.counters.add("claims: their caller left")
	}
}

// request is what a tenant asks for.
type request struct {
	workload *workload
	tenant   string
}

// answer is how a claim was answered.
type answer struct {
	client.Claim
	created bool
}

// claimWait is for how long a tenant waits in line. Machines that test are
// busy, and those who wait are three times as many as containers.
const claimWait = time.Minute

// requestClaim claims, at whatever server answers.
func (s *soak) requestClaim(ctx context.Context, r request) (answer, error) {
	return call(ctx, s.server, func(at *client.Client) (answer, error) {
		c, created, err := at.Claim(ctx, r.workload.id, r.tenant, claimWait)
		return answer{c, created}, err
	})
}

// claim asks, now and then twice at once, which has to be the same claim.
func (s *soak) claim(ctx context.Context, random *rand.Rand, r request) (client.Claim, error) {
	s.counters.add("claims: asked for")
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
		// One may have got it still, when the other came too early.
		return s.claimOfEither(ctx, both, err)
	}
	if both[0].ID != both[1].ID || both[0].created && both[1].created {
		return both[0].Claim, fmt.Errorf("asking twice at once makes two claims: %s and %s", both[0].ID, both[1].ID)
	}
	return both[0].Claim, nil
}

// claimOfEither is the claim that one of two got where the other did not.
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

// allowedRefusals are why claims may fail for which nobody is to blame but the tenants
// and the trouble.
var allowedRefusals = []client.Code{
	client.CodePoolExhausted, client.CodePoolNotReady, client.CodeEngineUnavailable, client.CodeUnhealthy, client.CodeContainerNotFound, client.CodeHookFailed, client.CodeStartFailed,
}

// checkRefusal judges why there is no claim, and that nothing of it is left.
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
		return fmt.Errorf("it was refused (%s) and has claim %s, which is %s", reason, live[0].ID, live[0].State)
	}
	return nil
}

// reasonOf is an error in few words, if it is one that may be.
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

// recordHolder notes that the tenant has the container to itself.
func (s *soak) recordHolder(c client.Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if holder, held := s.holders[c.Container]; held {
		return fmt.Errorf("claim %s has container %s, which %s has", c.ID, c.Container, holder)
	}
	s.holders[c.Container] = c.Tenant
	return nil
}

// removeHolder ends that, before the release begins.
func (s *soak) removeHolder(c client.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holders, c.Container)
}

// holdClaim holds the claim for a while, asks for it again, or sees its container
// being destroyed by an operator.
func (s *soak) holdClaim(ctx context.Context, random *rand.Rand, r request, c client.Claim) error {
	if err := flow.Sleep(ctx, time.Duration(random.IntN(r.workload.maxHold))*time.Millisecond); err != nil {
		return err
	}
	switch n := random.IntN(20); {
	case n == 0 && !s.onlyTenantFaults.Load():
		s.counters.add("trouble: containers destroyed by an operator")
		_, err := call(ctx, s.server, func(at *client.Client) (client.Container, error) { return at.DestroyContainer(ctx, c.Container, true) })
		if err != nil && codeOf(err) != client.CodeEngineUnavailable {
			return fmt.Errorf("destroy container %s by force: %w", c.Container, err)
		}
	case n < 5:
		again, err := s.requestClaim(ctx, r)
		if err != nil {
			return fmt.Errorf("ask again: %w", err)
		}
		if again.created || again.ID != c.ID || again.Container != c.Container {
			return fmt.Errorf("it has claim %s and gets %s (new: %t) when it asks again", c.ID, again.ID, again.created)
		}
	}
	return nil
}

// release gives the claim back, now and then by two at once or with the wish
// that nothing stays. Only an engine that is away may hold it up, and what a
// hostile tenant has made of its own state.
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
			discard = true // nobody else waits for it
			s.counters.add("claims: releases whose state could not be kept, of hostile tenants")
		case codeOf(err) != client.CodeEngineUnavailable || time.Since(begin) > serverTimeout:
			return fmt.Errorf("release claim %s after %s: %w", c.ID, time.Since(begin), err)
		default:
			s.counters.add("claims: releases tried again, the engine was away")
		}
		if err := flow.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}
