package access

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/runtime"
)

const (
	// sweepInterval is the time between two sweeps while a command is open.
	sweepInterval = 5 * time.Second
	// sweepAfter is how old an open command is when it is looked for: most have ended
	// by then.
	sweepAfter = 10 * time.Second
	// A container forgets a command that has ended when its output was read, so that
	// the server which read it has the end before RunSweep. A command that the
	// container has not started yet is not known to it either.
	unknownAfter = time.Minute      // since its start
	unknownFor   = 15 * time.Second // since RunSweep has first missed it
	// sweptAtOnce bounds how many containers are asked at once, and askTimeout each
	// question.
	sweptAtOnce = 8
	askTimeout  = 5 * time.Second
	// sweepPage is the number of open commands that are read at once.
	sweepPage = 500
)

// Commands lists the commands of containers. It is a runtime.Commander.
type Commands interface {
	Commands(ctx context.Context, id string, fence int64) ([]runtime.CommandStatus, error)
}

// anyTime is later than every start: those of other servers may be ahead.
var anyTime = time.Unix(0, math.MaxInt64)

// sweepRetries is how a sweep is repeated while the database does not answer.
var sweepRetries = backoff.Policy{Min: sweepInterval, Max: sweepInterval}

// RunSweep records the ends of commands that no server has followed to their end,
// until ctx ends. One server does that for all. Without an open command it reads
// nothing.
func (r *Recorder) RunSweep(ctx context.Context) error { return r.sweeps.Run(ctx) }

// EventHandlers returns what the recorder does on events of any server.
func (r *Recorder) EventHandlers() dispatch.Subscription {
	return dispatch.Subscription{
		Name: "commands of tenants",
		On:   map[activity.Type]func(activity.Event){activity.ExecStarted: func(activity.Event) { r.sweeps.WakeAfter(sweepAfter) }},
		Resync: func(context.Context) error {
			r.sweeps.Wake()
			return nil
		},
	}
}

// newSweeps returns the loop of RunSweep.
func (r *Recorder) newSweeps() *workqueue.Loop {
	missed := map[commandKey]time.Time{}
	return workqueue.NewLoop("recording the ends of tenants' commands", func(ctx context.Context) (next time.Time, err error) {
		var isOpen bool
		if missed, isOpen, err = r.sweep(ctx, missed); isOpen {
			next = time.Now().Add(sweepInterval)
		}
		return next, err
	}, sweepRetries, r.o.Log)
}

// sweep records the ends of the commands that have ended, and reports whether one was
// open. missed has since when a container has not known a command; sweep returns it for
// the next one.
func (r *Recorder) sweep(ctx context.Context, missed map[commandKey]time.Time) (still map[commandKey]time.Time, isOpen bool, err error) {
	still = map[commandKey]time.Time{}
	now := time.Now()
	for after := (OpenCommand{}); ; {
		page, err := r.o.Store.OpenCommands(ctx, anyTime, after, sweepPage)
		if err != nil || len(page) == 0 {
			return still, isOpen, err
		}
		isOpen, after = true, page[len(page)-1]
		isLast := len(page) < sweepPage
		page = slices.DeleteFunc(page, func(c OpenCommand) bool { return now.Sub(c.Started) < sweepAfter })
		var ends []Use
		for _, found := range r.askAll(ctx, page) {
			k, now := commandKey{found.end.Claim, found.end.ID}, time.Now()
			since, isMissed := missed[k]
			if !isMissed {
				since = now
			}
			if !found.isSure && (now.Sub(found.started) < unknownAfter || now.Sub(since) < unknownFor) {
				still[k] = since
				continue
			}
			ends = append(ends, Use{End: &found.end})
		}
		for batch := range slices.Chunk(ends, batchedUses) {
			events, err := r.o.Store.RecordUses(ctx, batch)
			if err != nil {
				return still, isOpen, err
			}
			r.countEnds(events)
		}
		if isLast {
			return still, isOpen, nil
		}
	}
}

// foundEnd is the end of a command as its container reports it. It is not sure if
// the container does not know the command.
type foundEnd struct {
	end     CommandEnd
	started time.Time
	isSure  bool
}

// askAll asks the containers of open commands, in the order of claims, and returns
// those that have ended.
func (r *Recorder) askAll(ctx context.Context, open []OpenCommand) []foundEnd {
	var groups [][]OpenCommand
	for i, c := range open {
		if i == 0 || open[i-1].Claim != c.Claim {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], c)
	}
	found := make([][]foundEnd, len(groups))
	var g errgroup.Group
	g.SetLimit(sweptAtOnce)
	for i, group := range groups {
		g.Go(func() error {
			found[i] = r.ask(ctx, group)
			return nil
		})
	}
	_ = g.Wait() // it returns nil
	return slices.Concat(found...)
}

// ask asks one container.
func (r *Recorder) ask(ctx context.Context, open []OpenCommand) (found []foundEnd) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	known, err := r.o.Commands.Commands(ctx, open[0].Container, open[0].Fence)
	reason := reasonUnknown
	switch {
	case err == nil, errors.Is(err, runtime.ErrUnsupported):
	case errors.Is(err, runtime.ErrStaleFence):
		reason = reasonReleased
	case errors.Is(err, runtime.ErrNotFound), errors.Is(err, runtime.ErrNotRunning), errors.Is(err, runtime.ErrContainerExited):
		reason = reasonExited
	default:
		return nil
	}
	byID := make(map[string]runtime.CommandStatus, len(known))
	for _, status := range known {
		byID[status.ID] = status
	}
	for _, c := range open {
		status, isKnown := byID[c.ID]
		f := foundEnd{end: CommandEnd{Claim: c.Claim, ID: c.ID, Result: status.Result, Output: status.Output}, started: c.Started, isSure: isKnown}
		if isKnown && status.Ended == nil {
			continue
		}
		if f.end.Result == nil {
			f.end.Reason = reason
		}
		found = append(found, f)
	}
	return found
}
