// Package dryrun shows what the hooks of a workload would do, and does nothing:
// no connection is made, no name is resolved, nothing runs in a container, and
// nothing is recorded.
//
// It promises that a secret is nowhere in what it returns. Secrets are read, so
// that a missing one is noticed, and that each that the workload declares is
// recognized.
package dryrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/workload"
)

// Service makes dry runs.
type Service struct {
	workload Current
	requests *request.Executor
}

// Current returns a workload as it is applied now.
type Current func(ctx context.Context, id string) (*workload.Workload, error)

// New returns a service that previews requests with the executor that sends
// them.
func New(current Current, requests *request.Executor) *Service {
	return &Service{workload: current, requests: requests}
}

// ErrInvalid is the error of a request for something that no hook can be for.
var ErrInvalid = errors.New("invalid dry run")

// Result is what hooks would do.
type Result struct {
	Workload string      `json:"workload"`
	Point    hooks.Point `json:"point,omitempty" doc:"Empty for an event."`
	Event    string      `json:"event,omitempty" doc:"The type of the event."`
	Hooks    []Hook      `json:"hooks" doc:"In the order in which they run; those for an event in order of their names."`
}

// Hook is what one hook would do.
type Hook struct {
	Name      string     `json:"name"`
	Action    hooks.Kind `json:"action"`
	Runs      bool       `json:"runs" doc:"False if it is disabled, its condition is false, or it has an error."`
	Disabled  bool       `json:"disabled,omitempty"`
	Condition string     `json:"condition,omitempty"`
	Holds     bool       `json:"holds" doc:"The result of the condition; true without one."`
	Variables []Variable `json:"variables" doc:"Those that the hook names."`
	Timeout   float64    `json:"timeout_ms"`

	Request *Request `json:"request,omitempty" doc:"Of http and webhook."`
	Command *Command `json:"command,omitempty" doc:"Of command and script."`
	Builtin *Builtin `json:"builtin,omitempty"`
	Error   string   `json:"error,omitempty" doc:"Why the attempt would fail before anything is sent or started."`
}

// Source is what supplies the value of a variable.
type Source string

// The sources.
const (
	Given       Source = "given"       // by the caller
	Sample      Source = "sample"      // an example, or what the workload's file says
	Environment Source = "environment" // of the workload
	OfSecret    Source = "secret"
	Captured    Source = "captured" // by a hook, from a response that a dry run does not have
	Nothing     Source = "nothing"
)

// Variable is a variable that a hook names.
type Variable struct {
	Name      string `json:"name"`
	Value     string `json:"value" doc:"••• for a secret."`
	Source    Source `json:"source" doc:"given, sample, environment, secret, captured or nothing."`
	Untrusted bool   `json:"untrusted,omitempty" doc:"A tenant or the receiver of a request writes it."`
	Missing   bool   `json:"missing,omitempty" doc:"It has no value here."`
}

// Request is what would be sent.
type Request = request.Preview

// Command is what would run in the container.
type Command struct {
	Args        []string          `json:"args"`
	Script      string            `json:"script,omitempty"`
	User        string            `json:"user,omitempty" doc:"Empty: the container's."`
	Workdir     string            `json:"workdir,omitempty" doc:"Empty: the container's."`
	Environment map[string]string `json:"environment" doc:"In addition to the container's."`
	Stdin       string            `json:"stdin"`
}

// Builtin is the function of the server that would be called.
type Builtin struct {
	Name string         `json:"name"`
	With map[string]any `json:"with,omitempty"`
}

// Run returns what the hooks of a workload for a point or an event would do. on
// may be an alias. given has values of variables by name.
func (s *Service) Run(ctx context.Context, id, on string, given map[string]string) (Result, error) {
	w, err := s.workload(ctx, id)
	if err != nil {
		return Result{}, err
	}
	given, err = checkGiven(w, given)
	if err != nil {
		return Result{}, err
	}
	if data, ok := given["SIGNAL_DATA"]; ok && !json.Valid([]byte(data)) {
		return Result{}, fmt.Errorf("%w: SIGNAL_DATA is not JSON", ErrInvalid)
	}
	s.requests.AddSecrets(w.Secrets)
	d := dryRun{Service: s, w: w, given: given, result: Result{Workload: id, Hooks: []Hook{}}}
	if p, ok := workload.PointNamed(on); ok {
		d.result.Point = p
		for i, h := range w.Hooks[p] {
			d.add(h, runner.PointAttempt(p, i, w, d.subject(p)))
		}
	} else if err := d.addEventHooks(on); err != nil {
		return Result{}, err
	}
	if d.size > maxSize {
		return Result{}, fmt.Errorf("%w: with these values the report is longer than %d MiB", ErrInvalid, maxSize>>20)
	}
	d.redact()
	return d.result, nil
}

// checkGiven returns the given values by the names that Hostler has for them. A
// name that nothing supplies is ErrInvalid: no hook can use it.
func checkGiven(w *workload.Workload, given map[string]string) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		rule, isOurs := variables.RuleOf(name)
		_, isSecret := w.Secrets[name]
		_, isConfigured := w.Environment[name]
		isParameter, err := checkParameter(w, name)
		switch {
		case err != nil:
			return nil, err
		case isSecret:
			return nil, fmt.Errorf("%w: %s is a secret", ErrInvalid, name)
		case isOurs:
			all[rule.Name] = given[name]
		case isParameter || isConfigured || isCaptured(w, name):
			all[name] = given[name]
		default:
			return nil, fmt.Errorf("%w: nothing supplies a variable %s", ErrInvalid, name)
		}
	}
	return all, nil
}

// isCaptured reports whether a hook captures a name.
func isCaptured(w *workload.Workload, name string) bool {
	captures := func(h hooks.Hook) bool {
		r, ok := h.Action.(hooks.Request)
		_, has := r.Capture[name]
		return ok && has
	}
	for _, list := range w.Hooks {
		if slices.ContainsFunc(list, captures) {
			return true
		}
	}
	return slices.ContainsFunc(w.EventHooks, func(h hooks.EventHook) bool { return captures(h.Hook) })
}

// dryRun is one dry run.
type dryRun struct {
	*Service
	w      *workload.Workload
	given  map[string]string
	result Result
	size   int // of the texts of the report in bytes, about
}

// maxSize bounds a report in bytes: a variable can be named many times.
const maxSize = 8 << 20

// sample returns the given value of a variable, else an example.
func (d *dryRun) sample(name, example string) string {
	if v, ok := d.given[name]; ok {
		return v
	}
	return example
}

// ofClaim are the points with a claim, next to those of waits.
var ofClaim = []hooks.Point{hooks.PostClaim, hooks.PreRelease}

// subject returns the container, and the claim and the wait if any, that a point is
// for.
func (d *dryRun) subject(p hooks.Point) runner.Subject {
	s := runner.Subject{Workload: d.w.ID, Container: d.sample("CONTAINER_ID", "sample-container"), Wait: runner.SampleWait(p, d.sample)}
	if s.Wait != nil || slices.Contains(ofClaim, p) {
		s.Claim, s.Tenant = d.sample("CLAIM_ID", "sample-claim"), d.sample("TENANT_ID", "sample-tenant")
		s.Source = d.sample("CLAIM_SOURCE", "fresh")
		s.Parameters = d.parameters()
	}
	if p == hooks.PreRelease {
		s.Reason = d.sample("RELEASE_REASON", "requested")
	}
	return s
}

// addEventHooks adds the hooks for an event: of the type that is named, or of the
// types of an alias.
func (d *dryRun) addEventHooks(on string) error {
	types := typesOf(on)
	if len(types) == 0 {
		return fmt.Errorf("%w: %q is neither a point nor an event", ErrInvalid, on)
	}
	d.result.Event = types[0]
	data := []byte(d.sample("EVENT_DATA", sampleData(types[0])))
	if !json.Valid(data) {
		return fmt.Errorf("%w: EVENT_DATA is not JSON", ErrInvalid)
	}
	for _, h := range d.w.EventHooks {
		i := slices.IndexFunc(types, func(t string) bool { return h.Matches(t, data) })
		if i < 0 {
			continue
		}
		a, err := runner.EventPreview(h.Hook, d.eventRun(h, types[i]), d.w, runner.Envelope{
			Type: types[i], Timestamp: time.Now().UTC(), Workload: d.w.ID, Container: d.sample("CONTAINER_ID", "sample-container"),
			Claim: d.sample("CLAIM_ID", "sample-claim"), Tenant: d.sample("TENANT_ID", "sample-tenant"),
			Message: d.sample("EVENT_MESSAGE", "sample message"), Data: data, Untrusted: activity.IsPublished(activity.Type(types[i])),
		})
		if err != nil {
			return err
		}
		d.add(h.Hook, a)
	}
	return nil
}

// sampleData returns an example of the data of an event.
func sampleData(event string) string {
	if !strings.HasPrefix(event, "wait.") {
		return "{}"
	}
	return string(activity.Data(activity.WaitData{
		Wait: "sample-wait", Name: "sample-wait", Kind: "consensus", Round: 1, TimeoutMS: 60_000, ThresholdMS: 60_000,
		DurationMS: 60_012, ExceededMS: 12, Task: "sample task", Iteration: "1", Phase: "sample phase",
	}))
}

// typesOf returns the types of events that a name stands for: a type, a subject
// or an alias. Of what tenants' programs publish, it knows those that the name and
// the aliases name.
func typesOf(on string) []string {
	alias, isAlias := hooks.EventAliasOf(on)
	var types []string
	for _, t := range activity.Types() {
		subject, _, _ := strings.Cut(string(t), ".")
		if string(t) == on || subject == on || isAlias && (alias.Types == nil || slices.Contains(alias.Types, string(t))) {
			types = append(types, string(t))
		}
	}
	published := append(slices.Clone(alias.Types), on)
	if on == activity.CustomSubject {
		published = []string{on + ".sample"}
	}
	for _, t := range published {
		if activity.IsPublished(activity.Type(t)) && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

func (d *dryRun) eventRun(h hooks.EventHook, event string) hooks.Run {
	return hooks.Run{
		ID: uuid.Must(uuid.NewV7()).String(), Attempt: 1, Event: event, Hook: h.Name, Kind: h.Action.Kind(), Workload: d.w.ID,
		Container: d.sample("CONTAINER_ID", "sample-container"), Claim: d.sample("CLAIM_ID", "sample-claim"), Tenant: d.sample("TENANT_ID", "sample-tenant"),
	}
}
