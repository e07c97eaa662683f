package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler/hostler/activity"
)

// EventSource is the activity log.
type EventSource interface {
	Events(ctx context.Context, f activity.Filter, after int64, limit int) (activity.Page, error)
	// Changed returns a channel that is closed at the next commit with events.
	// A caller that gets it before it reads misses no later event.
	Changed() <-chan struct{}
	// NewestEvents returns the last matching events, at most limit, in the order of
	// the log, and as Next the end of the log.
	NewestEvents(ctx context.Context, f activity.Filter, limit int) (activity.Page, error)
	// LastSeq returns the Seq of the newest event, 0 when there is none. Pages that are
	// read after it are up to that event at least.
	LastSeq(ctx context.Context) (int64, error)
}

const (
	typeSSE    = "text/event-stream"
	typeNDJSON = "application/x-ndjson"
)

// EventPage is a part of the log.
type EventPage struct {
	Items     []activity.Event `json:"items"`
	Next      int64            `json:"next" doc:"The sequence number to continue after. It is a number at the end of the log too: the end is reached when it does not grow."`
	OldestSeq int64            `json:"oldest_seq,omitempty" doc:"The oldest remaining event, when retention has deleted requested events."`
}

// FollowedEvent is one line of a stream: an event, or a line of type
// log.truncated which reports that events were deleted before they could be
// sent.
type FollowedEvent struct {
	activity.Event
	OldestSeq int64 `json:"oldest_seq,omitempty" doc:"Of log.truncated: the sequence number of the oldest remaining event."`
}

// LogTruncated is the type of the line in a stream that reports deleted events.
const LogTruncated activity.Type = "log.truncated"

// EventFilter are the parameters that pages and streams share.
type EventFilter struct {
	After       string   `query:"after" maxLength:"20" doc:"Events after this sequence number. By default a page begins with the oldest event, a stream with the next new one."`
	Since       string   `query:"since" maxLength:"64" doc:"Events since then, instead of after: a time (RFC 3339) or an age such as 10m." example:"10m"`
	Type        []string `query:"type,explode" doc:"A type such as hook.failed, or a prefix such as hook or agent.* for all of its types; several as a list with commas or repeated."`
	Workload    string   `query:"workload" maxLength:"128"`
	Container   string   `query:"container" maxLength:"128"`
	Tenant      string   `query:"tenant" maxLength:"200"`
	Claim       string   `query:"claim" maxLength:"128"`
	Point       string   `query:"point" maxLength:"64"`
	Actor       string   `query:"actor" maxLength:"300"`
	Run         string   `query:"run" maxLength:"128" doc:"A hook run."`
	Label       []string `query:"label,explode" doc:"NAME=VALUE: only events of claims with this label; repeated, with all of them. Claims that retention has removed have none."`
	MinPriority int      `query:"min_priority" minimum:"0" maximum:"9" doc:"Of the events that tenants' programs published, those of this priority and above."`
	Untrusted   string   `query:"untrusted" enum:"true,false" doc:"true: only events that tenants' programs published; false: only the others."`
	Accept      string   `header:"Accept"`
	LastEventID string   `header:"Last-Event-ID" maxLength:"20" doc:"Resume a stream after this sequence number; it takes precedence over after."`
}

type eventsIn struct {
	EventFilter
	Limit  int  `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of items."`
	Last   int  `query:"last" minimum:"1" maximum:"1000" doc:"The newest events instead, in the order of the log. next is the end of the log then. Not with after, since or a stream."`
	Follow bool `query:"follow" doc:"Stream JSON lines."`
}

// format returns the representation of a stream that is accepted; empty for none.
func (in *EventFilter) format() string {
	for part := range strings.SplitSeq(in.Accept, ",") {
		t, _, err := mime.ParseMediaType(part)
		if err == nil && (t == typeSSE || t == typeNDJSON) {
			return t
		}
	}
	return ""
}

func (in *EventFilter) filter(ctx context.Context) (activity.Filter, error) {
	f := activity.Filter{Workload: in.Workload, Container: in.Container, Tenant: in.Tenant, Claim: in.Claim, Point: in.Point, Actor: in.Actor, Run: in.Run, Scope: scopeOf(ctx)}
	if err := isKnownPoint(in.Point); err != nil {
		return f, err
	}
	f.MinPriority = in.MinPriority
	var err error
	if f.Labels, err = labelsOf(in.Label); err != nil {
		return f, err
	}
	if in.Untrusted != "" {
		f.Untrusted = new(in.Untrusted == "true")
	}
	for _, word := range splitList(in.Type) {
		word = strings.TrimSuffix(word, ".*")
		known := slices.ContainsFunc(activity.Types(), func(t activity.Type) bool {
			return string(t) == word || strings.HasPrefix(string(t), word+".")
		})
		if !known && word != activity.CustomSubject && !activity.IsPublished(activity.Type(word)) {
			return f, unknownType(word)
		}
		f.Types = append(f.Types, activity.Type(word))
	}
	return f, nil
}

func (a *API) events(ctx context.Context, in *eventsIn) (*streamOut, error) {
	filter, err := in.filter(ctx)
	if err != nil {
		return nil, err
	}
	format := in.format()
	if format == "" && in.Follow {
		format = typeNDJSON
	}
	if in.Last > 0 {
		return a.newestEvents(ctx, in, filter, format)
	}
	after, err := a.startSeq(ctx, &in.EventFilter, format != "")
	if err != nil {
		return nil, err
	}
	if format != "" {
		return a.follow(filter, after, format), nil
	}
	page, err := a.o.Events.Events(ctx, filter, after, in.Limit)
	if err != nil {
		return nil, err
	}
	if n := countWithin(page.Items, maxEventPageSize); n < len(page.Items) {
		page.Items, page.Next = page.Items[:n], page.Items[n-1].Seq
	}
	return eventPage(ctx, page), nil
}

// newestEvents returns the newest events.
func (a *API) newestEvents(ctx context.Context, in *eventsIn, filter activity.Filter, format string) (*streamOut, error) {
	if in.After != "" || in.Since != "" || format != "" {
		return nil, invalidf("query.last: not with after, since or a stream; follow after the next of its page")
	}
	page, err := a.o.Events.NewestEvents(ctx, filter, in.Last)
	if err != nil {
		return nil, err
	}
	slices.Reverse(page.Items)
	page.Items = page.Items[:countWithin(page.Items, maxEventPageSize)]
	slices.Reverse(page.Items)
	return eventPage(ctx, page), nil
}

// eventPage returns a page as the request's principal may see it.
func eventPage(ctx context.Context, page activity.Page) *streamOut {
	reader := viewOf(ctx)
	for i, e := range page.Items {
		page.Items[i] = reader.event(e)
	}
	body := EventPage{Items: page.Items, Next: page.Next, OldestSeq: page.OldestSeq}
	if body.Items == nil {
		body.Items = []activity.Event{}
	}
	return &streamOut{func(c huma.Context) {
		_, w := humago.Unwrap(c)
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(body) //nolint:errcheck,errchkjson // the client has disconnected
	}}
}

func (a *API) followEvents(ctx context.Context, in *struct{ EventFilter }) (*streamOut, error) {
	filter, err := in.filter(ctx)
	if err != nil {
		return nil, err
	}
	after, err := a.startSeq(ctx, &in.EventFilter, true)
	if err != nil {
		return nil, err
	}
	return a.follow(filter, after, cmp.Or(in.format(), typeNDJSON)), nil
}

// maxEventPageSize is the maximum size of messages and data of a page, not
// counting its first event.
const maxEventPageSize = 2 << 20

// countWithin returns how many of the events are within maxBytes, at least one.
func countWithin(events []activity.Event, maxBytes int) int {
	for i, e := range events {
		maxBytes -= len(e.Message) + len(e.Data)
		if maxBytes < 0 {
			return max(i, 1)
		}
	}
	return len(events)
}

// startSeq returns the sequence number to read after. It reads the end of the log: what is
// read after that has the events of other servers up to there.
func (a *API) startSeq(ctx context.Context, in *EventFilter, stream bool) (int64, error) {
	last, err := a.o.Events.LastSeq(ctx)
	if err != nil {
		return 0, err
	}
	given, name := in.After, "query.after"
	if stream && in.LastEventID != "" {
		given, name = in.LastEventID, "header.Last-Event-ID"
	}
	if given == "" && in.Since != "" {
		return a.seqAt(ctx, in.Since, last)
	}
	if given == "" && stream {
		return last, nil
	}
	if given == "" {
		return 0, nil
	}
	after, err := strconv.ParseInt(given, 10, 64)
	if err != nil || after < 0 {
		return 0, invalidf("%s: %q is not a valid event sequence", name, given)
	}
	if after > last {
		// The client's number is of another log. Following from there would
		// skip events silently until the log is as long.
		return 0, invalidf("%s: the log ends at %d, before %d; start again with after=0", name, last, after)
	}
	return after, nil
}

// seqAt returns the sequence number of a time, by binary search: the log is in
// the order of its times, except for the duration of transactions.
func (a *API) seqAt(ctx context.Context, text string, last int64) (int64, error) {
	from, err := startOf(text)
	if err != nil {
		return 0, err
	}
	var failed error
	after := sort.Search(int(last), func(i int) bool {
		page, err := a.o.Events.Events(ctx, activity.Filter{}, int64(i), 1)
		if err != nil {
			failed = fmt.Errorf("find the events since %s: %w", text, err)
			return true
		}
		return len(page.Items) == 0 || !page.Items[0].Time.Before(from)
	})
	return int64(after), failed
}
