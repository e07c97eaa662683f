package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// EventType names what happened: the thing, a dot, the verb. docs/events.md lists
// the types of Hostler. Those that tenants' programs publish begin with agent. or
// custom.
type EventType string

// The types of events.
const (
	EventWorkloadApplied      EventType = "workload.applied"
	EventWorkloadDeleted      EventType = "workload.deleted"
	EventWorkloadRejected     EventType = "workload.rejected"
	EventWorkloadAccepted     EventType = "workload.accepted"
	EventPoolCreated          EventType = "pool.created"
	EventPoolScaled           EventType = "pool.scaled"
	EventPoolDrained          EventType = "pool.drained"
	EventPoolWarning          EventType = "pool.warning"
	EventPoolRecovered        EventType = "pool.recovered"
	EventPoolDestroyed        EventType = "pool.destroyed"
	EventContainerCreating    EventType = "container.creating"
	EventContainerCreated     EventType = "container.created"
	EventContainerClaimed     EventType = "container.claimed"
	EventContainerWiped       EventType = "container.wiped"
	EventContainerReleased    EventType = "container.released"
	EventContainerUnhealthy   EventType = "container.unhealthy"
	EventContainerReached     EventType = "container.reached"
	EventContainerTerminating EventType = "container.terminating"
	EventContainerDied        EventType = "container.died"
	EventContainerForced      EventType = "container.forced"
	EventContainerDestroying  EventType = "container.destroying"
	EventContainerDestroyed   EventType = "container.destroyed"
	EventClaimRequested       EventType = "claim.requested"
	EventClaimActivated       EventType = "claim.activated"
	EventClaimFailed          EventType = "claim.failed"
	EventClaimReleasing       EventType = "claim.releasing"
	EventClaimDiscarded       EventType = "claim.discarded"
	EventClaimStateLost       EventType = "claim.state_lost"
	EventClaimReleased        EventType = "claim.released"
	EventClaimReleaseFailed   EventType = "claim.release_failed"
	EventClaimExtended        EventType = "claim.extended"
	EventWaitRequested        EventType = "wait.requested"
	EventWaitStarted          EventType = "wait.started"
	EventWaitSignalReceived   EventType = "wait.signal_received"
	EventWaitSignalled        EventType = "wait.signalled"
	EventWaitExpired          EventType = "wait.expired"
	EventWaitExtended         EventType = "wait.extended"
	EventWaitRetried          EventType = "wait.retried"
	EventWaitTimedOut         EventType = "wait.timed_out"
	EventWaitEscalated        EventType = "wait.escalated"
	EventWaitAborted          EventType = "wait.aborted"
	EventWaitCancelled        EventType = "wait.cancelled"
	EventHookStarted          EventType = "hook.started"
	EventHookCompleted        EventType = "hook.completed"
	EventHookFailed           EventType = "hook.failed"
	EventHookSkipped          EventType = "hook.skipped"
	EventHookWarning          EventType = "hook.warning"
	EventDeliveryRetried      EventType = "delivery.retried"
	EventDeliveryReplayed     EventType = "delivery.replayed"
	EventDeliveryDiscarded    EventType = "delivery.discarded"
	EventSyncStarted          EventType = "sync.started"
	EventSyncProgressed       EventType = "sync.progressed"
	EventSyncCompleted        EventType = "sync.completed"
	EventSyncFailed           EventType = "sync.failed"
	EventExecStarted          EventType = "exec.started"
	EventExecCompleted        EventType = "exec.completed"
	EventExecFailed           EventType = "exec.failed"
	EventFileRead             EventType = "file.read"
	EventFileWritten          EventType = "file.written"
	EventFileRemoved          EventType = "file.removed"
	EventRequestCompleted     EventType = "request.completed"

	EventQuotaChanged EventType = "quota.changed"
	EventQuotaRemoved EventType = "quota.removed"

	EventSnapshotRestored EventType = "snapshot.restored" // a tenant's older state is its current one again
	EventSnapshotImported EventType = "snapshot.imported" // a tenant's current state is that of a tar
	EventSnapshotExported EventType = "snapshot.exported" // a tar of a tenant's state is being sent

	EventAccessDenied EventType = "access.denied"

	EventAgentActivityChanged EventType = "agent.activity_changed"

	EventKeyCreated     EventType = "key.created"
	EventKeyRevoked     EventType = "key.revoked"
	EventTokenCreated   EventType = "token.created"
	EventBindingApplied EventType = "binding.applied"
	EventBindingDeleted EventType = "binding.deleted"
)

// LogTruncated is the type of a line of a stream that stands for events that
// retention has deleted.
const LogTruncated EventType = "log.truncated"

// LogEnded is the type of the last line of a stream whose credential was revoked or
// has expired.
const LogEnded EventType = "log.ended"

// Event is one entry of the activity log.
type Event struct {
	Seq       int64           `json:"seq"` // its place in the log, which only grows
	Time      time.Time       `json:"time"`
	Type      EventType       `json:"type"`
	Workload  string          `json:"workload,omitempty"`
	Container string          `json:"container,omitempty"`
	Tenant    string          `json:"tenant,omitempty"`
	Claim     string          `json:"claim,omitempty"`
	Run       string          `json:"run,omitempty"`
	Point     string          `json:"point,omitempty"`
	Depth     int             `json:"depth,omitempty"` // 1: a delivery to an event hook caused it
	Message   string          `json:"message"`
	Data      json.RawMessage `json:"data,omitempty"` // details, by type
	// Untrusted is whether a tenant's program published it: its data is whatever
	// that sent. Priority is nil for the other events.
	Untrusted bool `json:"untrusted,omitempty"`
	Priority  *int `json:"priority,omitempty"`
	// Actor is who caused it, from where and with which request: key:NAME, system.
	Actor   string `json:"actor,omitempty"`
	Address string `json:"address,omitempty"`
	Request string `json:"request,omitempty"`
}

// FollowedEvent is one line of a stream of events.
type FollowedEvent struct {
	Event
	OldestSeq int64 `json:"oldest_seq,omitempty"` // of LogTruncated: the oldest event that is left
}

// EventPage is a page of events.
type EventPage struct {
	Items     []Event `json:"items"`
	Next      int64   `json:"next"`                 // read on after this place
	OldestSeq int64   `json:"oldest_seq,omitempty"` // the oldest event that is left, when earlier ones were asked for
}

// EventFilter selects events; empty fields match all.
type EventFilter struct {
	Types     []EventType // a type, or a thing such as "hook" for all of its types
	Workload  string
	Container string
	Tenant    string
	Claim     string
	Point     string
	Actor     string
	Run       string            // a hook run
	Labels    map[string]string // of the claim, all of them
	// Of the events that tenants' programs published: the lowest priority.
	MinPriority int
	Untrusted   *bool // only those that tenants' programs published, or only the others
}

// EventQuery selects events and where to begin. Without After and
// Since a page begins at the beginning, and following with what is new.
type EventQuery struct {
	EventFilter
	After string // a place in the log
	Since string // a time (RFC 3339) or how long ago
}

func (q EventQuery) values() url.Values {
	v := values("type", joined(q.Types), "workload", q.Workload, "container", q.Container,
		"tenant", q.Tenant, "claim", q.Claim, "point", q.Point, "actor", q.Actor, "run", q.Run, "after", q.After, "since", q.Since)
	addLabels(v, q.Labels)
	if q.MinPriority > 0 {
		v.Set("min_priority", strconv.Itoa(q.MinPriority))
	}
	if q.Untrusted != nil {
		v.Set("untrusted", strconv.FormatBool(*q.Untrusted))
	}
	return v
}

// Events reads one page of events, of limit items at most.
func (c *Client) Events(ctx context.Context, q EventQuery, limit int) (EventPage, error) {
	query := q.values()
	query.Set("limit", strconv.Itoa(limit))
	out, _, err := doJSON[EventPage](ctx, c, call{method: http.MethodGet, path: "/v1/events", query: query})
	return out, err
}

// LastEvents reads the newest events that match, in the order of the log, n at most.
// To follow the log from there, continue after the page's Next. After and Since have
// to be empty.
func (c *Client) LastEvents(ctx context.Context, q EventQuery, n int) (EventPage, error) {
	query := q.values()
	query.Set("last", strconv.Itoa(n))
	out, _, err := doJSON[EventPage](ctx, c, call{method: http.MethodGet, path: "/v1/events", query: query})
	return out, err
}

// How a follower copes with a lost connection.
const (
	readTimeout = 45 * time.Second // three heartbeats of the server
	maxLine     = 16 << 20
)

// errReadTimeout is the error of a server that sends neither events nor
// heartbeats.
var errReadTimeout = errors.New("no event and no heartbeat from the server")

// Follow calls each with every event, in order, until ctx ends (nil), each
// returns an error (that error), or the server refuses (*Error). Only the first
// connection must succeed: later ones are retried with backoff, and resume
// where the last one broke. One event of type LogTruncated stands for events that
// retention has deleted.
func (c *Client) Follow(ctx context.Context, q EventQuery, each func(FollowedEvent) error) error {
	f := follower{c: c, query: q.values(), each: each}
	wait := retries.Retries()
	for {
		err := f.read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if stop, ok := errors.AsType[*stopError](err); ok {
			return stop.err
		}
		if !f.connected || !isTemporary(err) {
			return err
		}
		if f.progress {
			f.progress = false
			wait.Reset()
		}
		if wait.Sleep(ctx) != nil {
			return nil
		}
	}
}

// follower is where following has got to.
type follower struct {
	c         *Client
	query     url.Values
	each      func(FollowedEvent) error
	last      string // where to resume
	pending   string // where to resume once the empty line has come
	seq       int64  // of the last event
	connected bool   // once
	progress  bool   // something came through the last connection
}

// stopError is the caller's own error, as opposed to those of the connection.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }

// read follows through one connection. It returns why that ended.
func (f *follower) read(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	header := http.Header{"Accept": {"text/event-stream"}}
	if f.last != "" {
		header.Set("Last-Event-ID", f.last)
	}
	resp, err := f.c.doOnce(ctx, call{method: http.MethodGet, path: "/v1/events", query: f.query, header: header})
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	f.connected, f.pending = true, f.last
	alive := time.AfterFunc(readTimeout, func() { cancel(errReadTimeout) })
	defer alive.Stop()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		alive.Reset(readTimeout)
		f.progress = true
		if err := f.handleLine(lines.Text()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("follow events: %w", err)
	}
	return io.ErrUnexpectedEOF
}

// handleLine takes one line of the stream. An event's id comes before its data, and
// counts from the empty line after both: what breaks off in between is sent
// again, and recognized by its place in the log.
func (f *follower) handleLine(text string) error {
	name, value, _ := strings.Cut(text, ": ")
	switch name {
	case "id":
		f.pending = value
	case "":
		f.last = f.pending
	case "data":
		var e FollowedEvent
		if err := json.Unmarshal([]byte(value), &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if e.Type != LogTruncated {
			if e.Seq <= f.seq {
				return nil
			}
			f.seq = e.Seq
		}
		if err := f.each(e); err != nil {
			return &stopError{err}
		}
	}
	return nil
}
