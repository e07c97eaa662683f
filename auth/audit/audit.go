// Package audit records the requests that were refused for lack of a permission.
//
// It promises that such requests cannot make it write or remember without bound: of
// each sender it records a few, and counts the others. Senders without a credential,
// of which there are as many as networks, leave room for those with one. What was
// permitted is recorded by the changes themselves.
package audit

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/activity"
)

const (
	// Of each sender burst requests are recorded, and then one each interval.
	burst    = 5
	interval = 10 * time.Second
	// totalBurst and totalInterval limit those of all senders of a class.
	totalBurst    = 100
	totalInterval = 200 * time.Millisecond
	// maxSenders bounds the senders of a class that have limits of their own. The
	// others share one.
	maxSenders = 10_000
	// forgetAfter is how long a sender is remembered that sends nothing.
	forgetAfter = 10 * time.Minute

	maxQueued     = 256
	recordTimeout = 10 * time.Second
)

// Log is the activity log.
type Log interface {
	Append(ctx context.Context, events ...activity.Event) error
}

// Denial is a request that was refused.
type Denial struct {
	Actor     activity.Actor
	Operation string // of the API; empty if no route was found
	Reason    string // role, scope or credential
}

// Recorder records denials. It is safe for concurrent use.
type Recorder struct {
	log    Log
	errors *slog.Logger
	queue  chan activity.Event

	mu    sync.Mutex // guards the fields below
	known class      // senders with a credential
	rest  class
}

// class is a class of senders.
type class struct {
	senders map[string]*sender
	others  *sender
	total   *rate.Limiter
}

// sender is the limit of one sender.
type sender struct {
	limit   *rate.Limiter
	last    time.Time
	omitted int64
}

// NewRecorder returns a Recorder, whose Run records.
func NewRecorder(log Log, errors *slog.Logger) *Recorder {
	return &Recorder{log: log, errors: errors, queue: make(chan activity.Event, maxQueued), known: newClass(), rest: newClass()}
}

func newClass() class {
	return class{senders: map[string]*sender{}, others: newSender(), total: rate.NewLimiter(rate.Every(totalInterval), totalBurst)}
}

func newSender() *sender {
	return &sender{limit: rate.NewLimiter(rate.Every(interval), burst)}
}

// Denied records a denial, unless that is one too many. It never waits.
func (r *Recorder) Denied(d Denial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	of, name := r.classOf(d.Actor)
	s := of.sender(name)
	s.last = now
	if !s.limit.AllowN(now, 1) || !of.total.AllowN(now, 1) {
		s.omitted++
		return
	}
	e := activity.Event{
		Type: activity.AccessDenied, Message: "a request of " + cmp.Or(d.Actor.Name, "an unknown sender") + " was refused",
		Data: activity.Data(activity.AccessDeniedData{Omitted: s.omitted, Operation: d.Operation, Reason: d.Reason}),
	}.CausedBy(d.Actor)
	select {
	case r.queue <- e:
		s.omitted = 0
	default:
		s.omitted++
	}
}

// classOf returns the class and the name of who sent a request: the credential, or the
// network without one. All tokens that a credential makes are one sender.
func (r *Recorder) classOf(a activity.Actor) (*class, string) {
	if a.Name == "" || a.Name == activity.Anonymous {
		return &r.rest, network(a.Address)
	}
	if i := strings.LastIndexByte(a.Name, '#'); i >= 0 && strings.HasPrefix(a.Name, "token:") {
		return &r.known, a.Name[:i]
	}
	return &r.known, a.Name
}

// sender returns the limit of a sender. The caller holds mu.
func (c *class) sender(name string) *sender {
	s, ok := c.senders[name]
	if !ok && len(c.senders) >= maxSenders {
		return c.others
	}
	if !ok {
		s = newSender()
		c.senders[name] = s
	}
	return s
}

// network returns the network that one client has: a client with IPv6 has many
// addresses.
func network(address string) string {
	at, err := netip.ParseAddr(address)
	if err != nil || at.Is4() {
		return address
	}
	p, err := at.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return p.String()
}

// Run records what is queued until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	forget := time.NewTicker(forgetAfter / 10)
	defer forget.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-forget.C:
			r.forget(time.Now())
		case e := <-r.queue:
			r.record(ctx, e)
		}
	}
}

// record records an event with those that wait behind it.
func (r *Recorder) record(ctx context.Context, first activity.Event) {
	events := []activity.Event{first}
	for len(r.queue) > 0 {
		events = append(events, <-r.queue)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := r.log.Append(ctx, events...); err != nil {
		r.errors.Error("requests that were refused are not recorded", "requests", len(events), "error", err)
	}
}

// forget removes the senders that have sent nothing for some time.
func (r *Recorder) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range []class{r.known, r.rest} {
		for name, s := range c.senders {
			if now.Sub(s.last) >= forgetAfter {
				delete(c.senders, name)
			}
		}
	}
}
