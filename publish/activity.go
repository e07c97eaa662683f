package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/jsonvalue"
)

// Activities returns what a tenant's program can report to do.
func Activities() []string {
	return []string{"idle", "thinking", "executing", "waiting_for_input", "blocked", "completed", "limits_exceeded", "stalled", "offline"}
}

// working are the activities that show at each report that the claim is in use.
// The others show it when the activity changes.
var working = []string{"thinking", "executing"}

const (
	maxTool = 200  // bytes of the name of a tool
	maxTask = 1024 // bytes of the text of a task
	// touchInterval is how often a repeated report is recorded.
	touchInterval = time.Second
)

// ActivityRequest reports what the tenant's program does.
type ActivityRequest struct {
	Activity string `json:"activity" enum:"idle,thinking,executing,waiting_for_input,blocked,completed,limits_exceeded,stalled,offline" doc:"What the program does."`
	Tool     string `json:"tool,omitempty" maxLength:"200" doc:"The tool that it uses."`
	Task     string `json:"task,omitempty" maxLength:"1024" doc:"What it works on."`
	Origin   `json:"-"`
}

// ActivityResponse is the activity as it is recorded.
type ActivityResponse struct {
	Activity string    `json:"activity"`
	Tool     string    `json:"tool,omitempty"`
	Since    time.Time `json:"since" doc:"When it last changed."`
	Changed  bool      `json:"changed" doc:"Whether this request changed it."`
}

// SetActivity records what the program of a claim does. If that or its tool has
// changed, an event is recorded with it, which counts as one that is published. A
// report that shows that the claim is in use counts as a touch. A report that has
// changed nothing is recorded nowhere: if its answer was lost, it counts when it is
// sent again. Errors: those of Publish.
func (s *Service) SetActivity(ctx context.Context, claimID string, r ActivityRequest) (ActivityResponse, error) {
	if err := r.check(); err != nil {
		return ActivityResponse{}, err
	}
	c, err := s.store.Claim(ctx, claimID)
	if err != nil {
		return ActivityResponse{}, err
	}
	e := r.event(c)
	if isActive := slices.Contains(publishing(r.Origin), c.State); !isActive || !r.changes(c) {
		earlier, err := s.publishedEarlier(ctx, claimID, r.Origin, e)
		switch {
		case err != nil:
			return ActivityResponse{}, err
		case earlier != nil:
			return r.changedBy(*earlier), nil
		case !isActive:
			return ActivityResponse{}, fmt.Errorf("claim %s is %s: %w", c.ID, c.State, claim.ErrNotActive)
		}
		return s.repeat(ctx, c, r)
	}
	res, err := s.change(ctx, Publication{
		Claim: claimID, Origin: r.Origin,
		Change: func(c *claim.Claim, now time.Time) (e activity.Event, isChanged bool) {
			e = r.event(*c)
			if isChanged = r.changes(*c); isChanged {
				r.set(c, now)
			}
			return e, isChanged
		},
	}, e)
	if err != nil {
		if errors.Is(err, claim.ErrNotActive) || errors.Is(err, claim.ErrClaimNotFound) || errors.Is(err, ErrInvalid) || isLimit(err) {
			return ActivityResponse{}, err
		}
		_, touchErr := s.o.Touch(ctx, claimID) // that it is not stored does not make a tenant idle
		return ActivityResponse{}, errors.Join(err, touchErr)
	}
	if res.Event == nil {
		return unchanged(res.Claim), nil
	}
	return r.changedBy(*res.Event), nil
}

func (r ActivityRequest) check() error {
	if !slices.Contains(Activities(), r.Activity) {
		return fmt.Errorf("%w: unknown activity %.100q: it is one of %s", ErrInvalid, r.Activity, strings.Join(Activities(), ", "))
	}
	return errors.Join(r.Origin.check(), checkText("tool", r.Tool, maxTool), checkText("task", r.Task, maxTask))
}

// changes reports whether a claim has another activity on record.
func (r ActivityRequest) changes(c claim.Claim) bool {
	return c.Activity != r.Activity || c.ActivityTool != r.Tool
}

// set changes the record of a claim.
func (r ActivityRequest) set(c *claim.Claim, now time.Time) {
	if c.Activity != r.Activity || slices.Contains(working, r.Activity) {
		c.TouchedAt = &now
	}
	c.Activity, c.ActivityTool, c.ActivityAt = r.Activity, r.Tool, &now
}

// event returns the event of the change.
func (r ActivityRequest) event(c claim.Claim) activity.Event {
	priority := activity.DefaultPriority
	return activity.Event{
		Type: activity.AgentActivityChanged, Untrusted: true, Priority: &priority, Message: "the tenant's program is " + r.Activity,
		Data: jsonvalue.Escaped(activity.Data(activity.AgentActivityChangedData{
			Activity: r.Activity, PreviousActivity: c.Activity, Task: r.Task, ToolName: r.Tool,
		}), isUnsafe),
	}
}

// repeat answers a report that changes nothing.
func (s *Service) repeat(ctx context.Context, c claim.Claim, r ActivityRequest) (ActivityResponse, error) {
	if c.State != claim.Active || !slices.Contains(working, r.Activity) || time.Since(c.LastActive()) < touchInterval {
		return unchanged(c), nil
	}
	touched, err := s.o.Touch(ctx, c.ID)
	if err != nil {
		return ActivityResponse{}, err
	}
	return unchanged(touched), nil
}

// changedBy returns the answer to the request that an event records.
func (r ActivityRequest) changedBy(e activity.Event) ActivityResponse {
	return ActivityResponse{Activity: r.Activity, Tool: r.Tool, Since: e.Time, Changed: true}
}

// unchanged returns the answer to a request that changes nothing.
func unchanged(c claim.Claim) ActivityResponse {
	a := ActivityResponse{Activity: c.Activity, Tool: c.ActivityTool}
	if c.ActivityAt != nil {
		a.Since = *c.ActivityAt
	}
	return a
}

func isLimit(err error) bool {
	_, ok := errors.AsType[*LimitError](err)
	return ok
}
