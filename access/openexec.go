package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime"
)

// MaxOpenCommands bounds the commands of a claim whose start is recorded and whose
// end is not: more than run at once, because an end may be recorded late.
const MaxOpenCommands = 64

// ErrTooManyOpen indicates that a claim has MaxOpenCommands.
var ErrTooManyOpen = errors.New("too many commands of the claim are recorded as running")

// ErrCommandOpen means that the start of a command with the same ID is recorded, and
// its end is not.
var ErrCommandOpen = errors.New("a command with this ID is recorded as running")

// UseStore keeps what tenants do with their containers.
type UseStore interface {
	// StartCommand records that a command starts, while its claim is active. It
	// reports whether it did: not if the command is open already. Errors:
	// claim.ErrClaimNotFound, claim.ErrNotActive, ErrTooManyOpen. The store ends what
	// is open of a claim when the claim ends, with EndedWithClaim.
	StartCommand(ctx context.Context, c OpenCommand, omitted int64) (added bool, err error)
	// RecordUses records all of the uses or none, in their order. The end of a command
	// that is not open is left out. It returns the events that were recorded.
	RecordUses(ctx context.Context, uses []Use) ([]activity.Event, error)
	// OpenCommands returns the open commands that started before a time, in the order
	// of claim and id, after those of another one, and no more than limit.
	OpenCommands(ctx context.Context, before time.Time, after OpenCommand, limit int) ([]OpenCommand, error)
}

// Use is what the store records of one use: an event, or the end of a command.
type Use struct {
	Event activity.Event
	End   *CommandEnd // then the event is that of the end
}

// OpenCommand is a command whose start is recorded and whose end is not.
type OpenCommand struct {
	Claim     string
	ID        string
	Workload  string
	Container string
	Tenant    string
	Fence     int64 // of the container
	Program   string
	Terminal  bool
	Actor     string // who started it: the end of the command has it too
	Started   time.Time
}

// CommandEnd is how a command ended.
type CommandEnd struct {
	Claim  string
	ID     string
	Result *runtime.Result // nil if it is not known
	Output int64           // bytes
	Reason string          // why there is no result
}

// The reasons of ends without a result.
const (
	reasonReleased = "the claim was released"
	reasonExited   = "the container exited"
	reasonUnknown  = "its outcome is unknown"
)

// event returns an event about the command.
func (c OpenCommand) event(t activity.Type, message string, data any) activity.Event {
	return activity.Event{
		Type: t, Workload: c.Workload, Container: c.Container, Tenant: c.Tenant, Claim: c.Claim,
		Message: fmt.Sprintf("the tenant's command %s %s", cmp.Or(c.Program, c.ID), message), Data: activity.Data(data),
	}
}

// StartEvent returns the event of the start.
func (c OpenCommand) StartEvent(omitted int64) activity.Event {
	return c.event(activity.ExecStarted, "started", activity.ExecStartedData{
		Command: c.ID, Omitted: omitted, Program: c.Program, Terminal: c.Terminal,
	})
}

// EndEvent returns the event of the end.
func (c OpenCommand) EndEvent(end CommandEnd, now time.Time) activity.Event {
	data := activity.ExecEndedData{Command: c.ID, Output: end.Output, Program: c.Program, Reason: end.Reason, Terminal: c.Terminal}
	r := end.Result
	if r == nil {
		data.DurationMS = milliseconds(max(0, now.Sub(c.Started)))
		return c.event(activity.ExecFailed, "failed: "+end.Reason, data)
	}
	data.DurationMS, data.ExitCode, data.Signal, data.TimedOut = milliseconds(r.Duration), &r.ExitCode, clean(r.Signal, maxSignal), r.TimedOut
	switch {
	case r.OK():
		return c.event(activity.ExecCompleted, fmt.Sprintf("completed in %.1f ms", data.DurationMS), data)
	case r.TimedOut:
		return c.event(activity.ExecFailed, fmt.Sprintf("timed out after %.1f ms", data.DurationMS), data)
	case r.Signal != "":
		return c.event(activity.ExecFailed, "was terminated by "+data.Signal, data)
	case r.Exceeded != "":
		return c.event(activity.ExecFailed, "exceeded its limit of "+string(r.Exceeded), data)
	}
	return c.event(activity.ExecFailed, fmt.Sprintf("failed with exit code %d", r.ExitCode), data)
}

// EndedWithClaim returns the end of a command that is open when its claim ends.
func (c OpenCommand) EndedWithClaim() CommandEnd {
	return CommandEnd{Claim: c.Claim, ID: c.ID, Reason: reasonReleased}
}

// endOf returns the end of a command for what a CommandStream has returned. ok is
// false if the command may still run.
func endOf(claimID, id string, result runtime.Result, err error) (end CommandEnd, ok bool) {
	end = CommandEnd{Claim: claimID, ID: id}
	start, isStart := errors.AsType[*runtime.StartError](err)
	switch {
	case err == nil:
		end.Output = result.Stdout.Total + result.Stderr.Total
		result.Stdout, result.Stderr = runtime.Output{}, runtime.Output{}
		end.Result = &result
	case isStart:
		end.Reason = "it could not be started: " + string(start.Reason)
	case errors.Is(err, runtime.ErrTooManyCommands):
		end.Reason = "it could not be started: too many commands are running"
	case errors.Is(err, runtime.ErrUnsupported):
		end.Reason = "it could not be started: an older server created the container"
	case errors.Is(err, runtime.ErrContainerExited):
		end.Reason = reasonExited
	case errors.Is(err, runtime.ErrStaleFence):
		end.Reason = reasonReleased
	case errors.Is(err, runtime.ErrUnknownRun):
		end.Reason = reasonUnknown
	default:
		return end, false
	}
	return end, true
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
