package shim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/runtime"
)

// transfer is an OpTar or OpUntar that the program has begun.
type transfer struct {
	ctx     context.Context //nolint:containedctx // the call that the transfer belongs to
	session *Session
	link    *link
	out     Outgoing
	stream  *Stream
	stop    func() bool // ends the watch over ctx
	overdue chan error  // why it was given up while the program said nothing
	closed  chan struct{}
}

// transfer begins one, on another connection if need be: no file is moved before
// the program says that it has begun. The caller closes it.
func (s *Session) transfer(ctx context.Context, what string, op Op, dir string) (t *transfer, err error) {
	err = s.repeat(ctx, what, op == OpUntar, func(l *link) error {
		t, err = s.beginTransfer(ctx, l, Request{Op: op, Paths: []string{dir}, Streams: 1})
		return err
	})
	return t, err
}

func (s *Session) beginTransfer(ctx context.Context, l *link, r Request) (*transfer, error) {
	if !l.Has(FeatureFiles) {
		return nil, fmt.Errorf("%w: its shim does not move files", runtime.ErrDoomed)
	}
	out, err := l.Ask(r)
	if err != nil {
		return nil, err
	}
	t := &transfer{
		ctx: ctx, session: s, link: l, out: out, stream: out.Stream(0),
		overdue: make(chan error, 1), closed: make(chan struct{}),
	}
	t.stop = context.AfterFunc(ctx, func() { t.stream.Reset(context.Cause(ctx)) })
	ev, err := t.next()
	switch {
	case err != nil:
	case ev.answer == nil:
		return t, nil
	case ev.answer.Fault != nil:
		err = ev.answer.Fault.Err()
	default:
		err = fmt.Errorf("%w: it has ended before it began", runtime.ErrDoomed)
	}
	t.close()
	return nil, err
}

// close gives up what is still under way. It may be called again, and is for one
// goroutine.
func (t *transfer) close() {
	select {
	case <-t.closed:
		return
	default:
	}
	close(t.closed)
	t.stop()
	t.out.Forget()
}

// next waits for the next thing that the program says of the request.
func (t *transfer) next() (event, error) {
	defer t.watch().Stop()
	return t.event()
}

// event is next without a limit.
func (t *transfer) event() (event, error) {
	select {
	case ev := <-t.out.events:
		return ev, nil
	default:
	}
	select {
	case ev := <-t.out.events:
		return ev, nil
	case err := <-t.overdue:
		return event{}, err
	case <-t.link.lost:
	case <-t.ctx.Done():
		return event{}, context.Cause(t.ctx)
	}
	select {
	case ev := <-t.out.events: // it came just before
		return ev, nil
	default:
		return event{}, errLinkLost
	}
}

// watch gives the program as long as it may leave a request unanswered, from now
// until the timer is stopped. Then the transfer is over.
func (t *transfer) watch() *time.Timer {
	since := time.Now()
	return time.AfterFunc(t.session.silence.limit, func() {
		err := t.session.unanswered(since)
		select {
		case t.overdue <- err:
		default: // it has been said
		}
		t.stream.Reset(err)
	})
}

// unanswered judges a container that has said nothing since then of a request on
// an open session. The engine is asked: it may be to blame.
func (s *Session) unanswered(since time.Time) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), openTimeout,
		fmt.Errorf("%w: no word of the container within %s", runtime.ErrUnavailable, openTimeout))
	defer cancel()
	if err := s.running(ctx); err != nil {
		return lostOrAway(err)
	}
	return s.silence.unanswered(since)
}

// lostOrAway is what the engine's word on a container means for a transfer.
func lostOrAway(err error) error {
	_, failed := errors.AsType[*runtime.StartError](err)
	if failed || errors.Is(err, runtime.ErrNotFound) || errors.Is(err, runtime.ErrNotRunning) {
		return fmt.Errorf("%w: %s", runtime.ErrLost, err.Error())
	}
	return err
}

// broken is why a connection was lost in the middle of the transfer: because the
// container has ended, or else a reason to try again.
func (t *transfer) broken() error {
	t.session.silence.lost(time.Now())
	l, err := t.session.connect(t.ctx)
	switch {
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case err != nil:
		return lostOrAway(err)
	case l.boot != t.link.boot:
		return fmt.Errorf("%w: it was started again", runtime.ErrLost)
	}
	return fmt.Errorf("%w: the session was lost in the middle", runtime.ErrUnavailable)
}

// verdict is what the end of the request means: nil for a good one.
func (t *transfer) verdict(ev event, err error) error {
	switch {
	case errors.Is(err, errLinkLost):
		return t.broken()
	case err != nil:
		return err
	case ev.answer == nil:
		return fmt.Errorf("%w: a note on a transfer under way", runtime.ErrDoomed)
	case ev.answer.Fault != nil:
		return ev.answer.Fault.Err()
	}
	return nil
}
