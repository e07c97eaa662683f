// Package publish records what tenants' programs report: events, and what they do
// at the moment.
//
// It promises that
//
//   - an event is recorded only while the claim holds its container, in the
//     transaction that checks it, and in the one order of all events;
//   - a claim, and a tenant with all its claims, publishes no more than an
//     Allowance permits, whichever servers get the requests. What is refused is
//     counted, and costs no transaction once it is known;
//   - what many tenants publish at once, each within its limits, does not keep a
//     server from other changes;
//   - the event is marked as untrusted, its type cannot be that of an event of
//     Hostler, and its data is JSON of a bounded size and depth without a control
//     character.
//
// Who may publish for a claim is for its callers to decide, and delivery to event
// hooks and retention are those of all events.
package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/dispatch"
)

// maxID bounds the id of a request.
const maxID = 200

// ErrInvalid indicates that a request is not valid, for the reason in the text.
var ErrInvalid = errors.New("invalid event")

// ErrOtherRequest indicates that the id of a request is that of another one.
var ErrOtherRequest = fmt.Errorf("%w: the id of its request is that of another one", ErrInvalid)

// Store keeps what is published.
type Store interface {
	// Claim returns one record, or claim.ErrClaimNotFound.
	Claim(ctx context.Context, id string) (claim.Claim, error)
	// Publish makes one change, as Publication specifies, and returns the record of
	// the claim and the allowances after it.
	//
	// A request with the ID of an event of the claim changes nothing, and returns that
	// event, or ErrOtherRequest if it does not request that one (IsRepeated), whatever
	// has changed since. A claim that is in none of the states is claim.ErrNotActive. An
	// event for which an allowance has no room is *LimitError: then nothing is changed,
	// and the result has the allowances.
	Publish(ctx context.Context, p Publication) (Result, error)
	// PublishedEarlier returns the event of the claim that has the ID of a request
	// for e, nil if there is none, or ErrOtherRequest as Publish does. It returns each
	// event for RequestRetention at least.
	PublishedEarlier(ctx context.Context, claimID, requestID string, e activity.Event) (*activity.Event, error)
}

// RequestRetention is how long a request is recognised when it is sent again: longer
// than a program repeats it.
const RequestRetention = 5 * time.Minute

// Publication is a change that a tenant's program requests.
type Publication struct {
	Claim  string
	States []claim.State // of the claim
	// Change makes the change of the claim, if any, and returns the event that is
	// requested, and whether it is to be recorded. The event's claim, container,
	// workload and tenant are filled in. It may be called again as if it had never
	// been called.
	Change func(c *claim.Claim, now time.Time) (e activity.Event, isChanged bool)
	Origin
	// Dropped are the events of the claim that were refused and are not in its
	// allowance yet.
	Dropped int64
}

// Result is what a Publication has changed.
type Result struct {
	Claim claim.Claim
	Event *activity.Event // without its number, or the one of the same request; nil: none
	// Now is the time of the allowances, of the claim and of its tenant. They are
	// zero if no event was recorded.
	Now               time.Time
	ByClaim, ByTenant Allowance
}

// IsRecorded reports whether an event was recorded, and with it the number of
// dropped ones: not if nothing has changed, and not for a repeated request.
func (r Result) IsRecorded() bool { return !r.ByClaim.Events.IsZero() }

// Origin is where a request comes from. The zero Origin is a caller of the API.
type Origin struct {
	// ID is the same for a request that is sent again because its answer was lost:
	// it publishes nothing then. "" if it has none.
	ID string
	// FromHook reports whether a process of a command of the server, such as a hook,
	// sent it. Run is the id of the run or of its attempt, or "" if that is unknown.
	// An event that the command of an event hook publishes has a depth of 1; without
	// Run, one that is published while such a command runs in the container.
	FromHook bool
	Run      string
}

// check returns an error if the ID is too long.
func (o Origin) check() error {
	if len(o.ID) > maxID {
		return fmt.Errorf("%w: the id of the request has %d bytes, more than %d", ErrInvalid, len(o.ID), maxID)
	}
	return nil
}

// Request publishes an event.
type Request struct {
	Type     string          `json:"type" minLength:"1" maxLength:"128" doc:"Lower-case words with dots between them. What begins with neither agent. nor custom. is recorded as custom.TYPE." example:"agent.task_completed"`
	Data     json.RawMessage `json:"data,omitempty" doc:"JSON of at most 32 KiB."`
	Priority *int            `json:"priority,omitempty" minimum:"0" maximum:"9" doc:"9 is critical, 8 about the program's lifecycle, 7 about its state (default), 6 and lower are measurements. Under pressure, events of lower priority are discarded first."`
	Origin   `json:"-"`
}

// Response describes the event that was recorded.
type Response struct {
	Type      activity.Type `json:"type" doc:"The type as it is recorded."`
	Priority  int           `json:"priority"`
	Time      time.Time     `json:"time"`
	Untrusted bool          `json:"untrusted" doc:"Always true."`
}

// Options are what a Service needs in addition to its store.
type Options struct {
	// Touch records that a claim is still in use. It is claim.Service.Touch.
	Touch func(ctx context.Context, id string) (claim.Claim, error)
	// OnEvent is called for each event that was recorded or dropped, with whether it
	// was dropped. A repeated request is not counted again. nil: not.
	OnEvent func(dropped bool)
	Log     *slog.Logger
}

// Service records what tenants' programs report. It is safe for concurrent use.
type Service struct {
	store Store
	o     Options
	gate  gate
	slots chan struct{} // holds an element for each change that is being made
}

// maxAtOnce bounds how many changes a server makes at once: the programs of many
// tenants, each within its limits, must not delay what else the database does.
const maxAtOnce = 4

// New returns a service.
func New(store Store, o Options) *Service {
	return &Service{store: store, o: o, slots: make(chan struct{}, maxAtOnce)}
}

// Publish records an event of a claim. Errors: ErrInvalid, activity.ErrType,
// claim.ErrClaimNotFound, claim.ErrNotActive, *LimitError.
func (s *Service) Publish(ctx context.Context, claimID string, r Request) (Response, error) {
	e, err := newEvent(r)
	if err != nil {
		return Response{}, err
	}
	res, err := s.change(ctx, Publication{
		Claim: claimID, Origin: r.Origin,
		Change: func(*claim.Claim, time.Time) (activity.Event, bool) { return e, true },
	}, e)
	if err != nil {
		return Response{}, err
	}
	return Response{Type: e.Type, Priority: *e.Priority, Time: res.Event.Time, Untrusted: true}, nil
}

// publishedEarlier returns the event that the same request has published, or nil. It
// is asked before anything but the store refuses or answers the request: what has
// happened since the first one is of no account.
func (s *Service) publishedEarlier(ctx context.Context, claimID string, o Origin, e activity.Event) (*activity.Event, error) {
	if o.ID == "" {
		return nil, nil
	}
	return s.store.PublishedEarlier(ctx, claimID, o.ID, e)
}

// newEvent returns the event of a request, without what is of the claim.
func newEvent(r Request) (activity.Event, error) {
	var e activity.Event
	err := r.Origin.check()
	if err != nil {
		return e, err
	}
	if e.Type, err = activity.PublishedType(r.Type); err != nil {
		return e, err
	}
	priority := activity.DefaultPriority
	if r.Priority != nil {
		priority = *r.Priority
	}
	if priority < activity.MinPriority || priority > activity.MaxPriority {
		return e, fmt.Errorf("%w: the priority %d is not between %d and %d", ErrInvalid, priority, activity.MinPriority, activity.MaxPriority)
	}
	if e.Data, err = normalized(r.Data); err != nil {
		return e, err
	}
	e.Untrusted, e.Priority, e.Message = true, &priority, "published by the tenant's program"
	return e, nil
}

// Size returns what an event uses of the limit of bytes.
func Size(e activity.Event) int { return len(e.Type) + len(e.Data) }

// publishing returns the states of a claim in which its program may publish. A
// main process may still report its end while the claim is released. Of a pending
// claim only the hooks run.
func publishing(o Origin) []claim.State {
	if o.FromHook {
		return []claim.State{claim.Pending, claim.Active, claim.Releasing}
	}
	return []claim.State{claim.Active, claim.Releasing}
}

// change makes a change, unless it is known that an allowance has no room for its
// event e. Then a repeated request has the event of the first one, and changes nothing.
func (s *Service) change(ctx context.Context, p Publication, e activity.Event) (Result, error) {
	p.States = publishing(p.Origin)
	p.Run, _, _ = strings.Cut(p.Run, ".") // without the number of the attempt
	limit, mayBeRepeated := s.gate.enter(p.Claim, Size(e), time.Now(), p.ID == "")
	if mayBeRepeated {
		earlier, err := s.lookUp(ctx, p, e)
		if err != nil || earlier != nil {
			return Result{Event: earlier}, err
		}
		limit, _ = s.gate.enter(p.Claim, Size(e), time.Now(), true)
	}
	if limit != nil {
		s.dropped(limit)
		return Result{}, limit
	}
	defer s.gate.leave(p.Claim)
	return s.record(ctx, p)
}

// lookUp returns the event of an earlier request with the ID of this one, or nil. It
// reads no more often for a claim than that may publish: what is refused must not be
// a load of the database. The others wait.
func (s *Service) lookUp(ctx context.Context, p Publication, e activity.Event) (*activity.Event, error) {
	turn := time.NewTimer(s.gate.turn(p.Claim, time.Now()))
	defer turn.Stop()
	select {
	case <-turn.C:
		return s.publishedEarlier(ctx, p.Claim, p.Origin, e)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// record makes a change that the gate has admitted.
func (s *Service) record(ctx context.Context, p Publication) (Result, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	p.Dropped = s.gate.takeDropped(p.Claim)
	res, err := s.store.Publish(ctx, p)
	if err != nil || !res.IsRecorded() {
		s.gate.addDropped(p.Claim, p.Dropped)
	}
	if limit, isLimit := errors.AsType[*LimitError](err); isLimit {
		s.gate.update(res, time.Now())
		limit = s.gate.drop(p.Claim, limit.Of, limit.RetryAfter)
		s.dropped(limit)
		return res, limit
	}
	if err == nil && res.IsRecorded() {
		s.gate.update(res, time.Now())
		if s.o.OnEvent != nil {
			s.o.OnEvent(false)
		}
	}
	return res, err
}

// EventHandlers returns what the service does on events of any server.
func (s *Service) EventHandlers() dispatch.Subscription {
	ended := func(e activity.Event) { s.ended(e.Claim, e.Tenant) }
	return dispatch.Subscription{Name: "publish", Resync: s.resync, On: map[activity.Type]func(activity.Event){
		activity.ClaimReleased: ended, activity.ClaimFailed: ended,
	}}
}

// ended forgets a claim that has ended, and reports what was dropped.
func (s *Service) ended(id, tenant string) {
	if n := s.gate.forget(id); n > 0 {
		s.o.Log.Info("events of a tenant's program were dropped", "claim", id, "tenant", tenant, "events", n)
	}
}

// resync forgets the claims with dropped events whose end was missed. What else is
// kept is removed when there is much.
func (s *Service) resync(ctx context.Context) error {
	for id, tenant := range s.gate.dropping() {
		c, err := s.store.Claim(ctx, id)
		switch {
		case errors.Is(err, claim.ErrClaimNotFound), err == nil && !c.State.IsLive():
			s.ended(id, tenant)
		case err != nil:
			return err
		}
	}
	return nil
}

// dropped reports an event that was dropped. The first of a claim is logged.
func (s *Service) dropped(err *LimitError) {
	if s.o.OnEvent != nil {
		s.o.OnEvent(true)
	}
	if err.isFirst {
		s.o.Log.Warn("a tenant's program publishes too many events; dropping them", "claim", err.claim, "tenant", err.tenant, "limit", err.Of)
	}
}
