package access

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/runtime"
)

// useStore is a UseStore in memory.
type useStore struct {
	mu      sync.Mutex
	open    map[commandKey]OpenCommand
	events  []activity.Event
	batches []int
	fails   int // that many calls of RecordUses
	failing error
}

func (s *useStore) StartCommand(_ context.Context, c OpenCommand, omitted int64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != nil {
		return false, s.failing
	}
	k := commandKey{c.Claim, c.ID}
	if _, ok := s.open[k]; ok {
		return false, nil
	}
	if len(s.open) >= MaxOpenCommands {
		return false, ErrTooManyOpen
	}
	c.Started = time.Now()
	s.open[k] = c
	s.events = append(s.events, c.StartEvent(omitted))
	return true, nil
}

func (s *useStore) RecordUses(_ context.Context, uses []Use) (recorded []activity.Event, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, len(uses))
	if s.fails > 0 {
		s.fails--
		return nil, errors.New("unavailable")
	}
	for _, u := range uses {
		if u.End == nil {
			recorded = append(recorded, u.Event)
			continue
		}
		k := commandKey{u.End.Claim, u.End.ID}
		if c, ok := s.open[k]; ok {
			delete(s.open, k)
			recorded = append(recorded, c.EndEvent(*u.End, time.Now()))
		}
	}
	s.events = append(s.events, recorded...)
	return recorded, nil
}

func (s *useStore) OpenCommands(_ context.Context, before time.Time, after OpenCommand, limit int) (page []OpenCommand, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, c := range s.open {
		if c.Started.Before(before) && (k.claim+k.id > after.Claim+after.ID) {
			page = append(page, c)
		}
	}
	slices.SortFunc(page, func(a, b OpenCommand) int { return strings.Compare(a.Claim+a.ID, b.Claim+b.ID) })
	return page[:min(limit, len(page))], nil
}

// took returns the events since the last call.
func (s *useStore) took() []activity.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.events
	s.events = nil
	return all
}

// containerCommands are the commands that containers report.
type containerCommands struct {
	mu   sync.Mutex
	all  []runtime.CommandStatus
	err  error
	asks int
}

func (c *containerCommands) Commands(context.Context, string, int64) ([]runtime.CommandStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks++
	return slices.Clone(c.all), c.err
}

func (c *containerCommands) report(err error, all ...runtime.CommandStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.err = all, err
}

// rig is a Recorder whose loops run.
type rig struct {
	*Recorder
	store    *useStore
	commands *containerCommands
	used     map[activity.Type]int // read it when the bubble is idle
	omitted  map[string]int
	stop     func()
}

// inBubble runs a test with a Recorder, in a bubble in which time passes at once.
func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{
			store: &useStore{open: map[commandKey]OpenCommand{}}, commands: new(containerCommands),
			used: map[activity.Type]int{}, omitted: map[string]int{},
		}
		var mu sync.Mutex
		r.Recorder = NewRecorder(RecorderOptions{
			Store: r.store, Commands: r.commands, Log: slog.New(slog.DiscardHandler),
			OnUse: func(workload string, typ activity.Type) {
				mu.Lock()
				defer mu.Unlock()
				if workload == "web" {
					r.used[typ]++
				}
			},
			OnOmitted: func(subject string) {
				mu.Lock()
				defer mu.Unlock()
				r.omitted[subject]++
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var g errgroup.Group
		g.Go(func() error { return r.Run(ctx) })
		g.Go(func() error { return r.RunSweep(ctx) })
		r.stop = sync.OnceFunc(func() {
			cancel()
			require.NoError(t, g.Wait())
		})
		defer r.stop()
		test(t, r)
	})
}

// pass lets time pass, and returns what was recorded.
func (r *rig) pass(d time.Duration) []activity.Event {
	<-time.After(d)
	synctest.Wait()
	return r.store.took()
}

func (r *rig) start(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, r.CommandStarting(t.Context(), granted, CommandUse{ID: id, Args: []string{"/usr/bin/make", "--secret=x"}}))
	r.EventHandlers().On[activity.ExecStarted](activity.Event{})
}

var granted = Grant{Claim: claim.Claim{ID: "c", Workload: "web", Tenant: "ann", Container: "k", ContainerFence: 7}}

func typesOf(events []activity.Event) (all []activity.Type) {
	for _, e := range events {
		all = append(all, e.Type)
	}
	return all
}

// dataOf returns the data of an event.
func dataOf[T any](t *testing.T, e activity.Event) (data T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(e.Data, &data))
	return data
}
