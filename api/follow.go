package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler/hostler/activity"
)

// followBatch is how many events a follower reads at once. It bounds the memory
// of a slow follower.
const followBatch = 256

// encoder writes a stream in one representation.
type encoder struct {
	preamble  func(b *bytes.Buffer, after int64)
	event     func(*bytes.Buffer, FollowedEvent)
	heartbeat func(b *bytes.Buffer, after int64)
}

// encoders are the representations of a stream.
var encoders = map[string]encoder{
	typeSSE: {
		// With the id, a client that is disconnected before the first event
		// resumes where it began.
		preamble: func(b *bytes.Buffer, after int64) { fmt.Fprintf(b, "retry: 2000\nid: %d\n\n", after) },
		event: func(b *bytes.Buffer, e FollowedEvent) {
			if e.Type != LogTruncated {
				fmt.Fprintf(b, "id: %d\n", e.Seq)
			}
			b.WriteString("data: ")
			writeJSON(b, e)
			b.WriteByte('\n')
		},
		// An id without data is not an event, but sets where the client
		// resumes.
		heartbeat: func(b *bytes.Buffer, after int64) { fmt.Fprintf(b, ": heartbeat\nid: %d\n\n", after) },
	},
	typeNDJSON: {
		preamble:  func(*bytes.Buffer, int64) {},
		event:     func(b *bytes.Buffer, e FollowedEvent) { writeJSON(b, e) },
		heartbeat: func(b *bytes.Buffer, _ int64) { b.WriteByte('\n') },
	},
}

// writeJSON writes v and a newline.
func writeJSON(b *bytes.Buffer, v any) {
	if err := json.NewEncoder(b).Encode(v); err != nil {
		panic(fmt.Sprintf("api: encode an event: %v", err))
	}
}

// follow streams events until the client leaves, is too slow for its write
// deadline, or the server stops.
func (a *API) follow(filter activity.Filter, after int64, format string) *streamOut {
	return &streamOut{func(c huma.Context) {
		r, w := humago.Unwrap(c)
		end, refused := a.followers.begin(c.Context())
		if refused != nil {
			refused.write(w)
			return
		}
		defer end()
		w.Header().Set("Content-Type", format)
		// Proxies must not buffer the stream.
		w.Header().Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodHead {
			return
		}
		defer a.observeFollower()()
		f := follower{a: a, filter: filter, view: viewOf(c.Context()), after: after, encoder: encoders[format], w: w, flush: http.NewResponseController(w).Flush}
		if err := f.run(c.Context()); err != nil {
			f.reportEnd(c.Context())
			a.o.Log.DebugContext(c.Context(), "event stream ended", "request", requestID(c.Context()), "after", f.after, "error", err)
		}
	}}
}

// follower is one stream.
type follower struct {
	a              *API
	filter         activity.Filter
	view           view  // of the reader
	after          int64 // all events up to here are sent, or do not match
	reportedOldest int64 // OldestSeq of the last reported deletion
	encoder
	w     http.ResponseWriter
	flush func() error
	buf   bytes.Buffer
}

func (f *follower) run(ctx context.Context) error {
	heartbeat := time.NewTicker(f.a.o.Heartbeat)
	defer heartbeat.Stop()
	f.preamble(&f.buf, f.after)
	for {
		// Taken before the read, so that later events wake the follower.
		changed := f.a.o.Events.Changed()
		more, err := f.read(ctx)
		if err != nil {
			return err
		}
		if err := f.send(); err != nil {
			return err
		}
		if more {
			select {
			case <-f.a.closing:
				return nil
			default:
				continue
			}
		}
		select {
		case <-changed:
		case <-heartbeat.C:
			f.heartbeat(&f.buf, f.after)
		case <-f.a.closing:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reportEnd writes the last line of a stream whose credential has ended.
func (f *follower) reportEnd(ctx context.Context) {
	cause := credentialEnd(ctx)
	if cause == nil {
		return
	}
	f.buf.Reset()
	f.event(&f.buf, FollowedEvent{Event: activity.Event{Seq: f.after, Time: time.Now().UTC(), Type: LogEnded, Message: cause.Error()}})
	_ = f.send() // the client may have left
}

// read encodes the next events. It reports whether there may already be more.
func (f *follower) read(ctx context.Context) (more bool, err error) {
	page, err := f.a.o.Events.Events(ctx, f.filter, f.after, followBatch)
	if err != nil {
		return false, fmt.Errorf("read events after %d: %w", f.after, err)
	}
	if page.OldestSeq > f.reportedOldest {
		f.reportedOldest = page.OldestSeq
		f.event(&f.buf, FollowedEvent{OldestSeq: page.OldestSeq, Event: activity.Event{
			Seq: f.after, Time: time.Now().UTC(), Type: LogTruncated,
			Message: fmt.Sprintf("events after %d and before %d were deleted", f.after, page.OldestSeq),
		}})
	}
	for _, e := range page.Items {
		f.event(&f.buf, FollowedEvent{Event: f.view.event(e)})
	}
	more = page.Next > f.after
	f.after = max(f.after, page.Next)
	return more, nil
}

func (f *follower) send() error {
	if f.buf.Len() > 0 {
		if _, err := f.w.Write(f.buf.Bytes()); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
		f.buf.Reset()
	}
	if err := f.flush(); err != nil {
		return fmt.Errorf("flush events: %w", err)
	}
	return nil
}
