package variables

import (
	"slices"
	"strings"
)

// When is when a variable has a value. Otherwise it is empty.
type When string

// The occasions.
const (
	Always        When = "always"
	OfContainer   When = "with a container"
	OfClaim       When = "with a claim"
	AtPoint       When = "at points"
	OfClaimSource When = "at points of a claim, and for claim.activated and container.claimed"
	AtPreRelease  When = "at pre_release, and for the release of a claim"
	OfStateChange When = "at points, and for events of phase-change"
	OfPhaseEvent  When = "for events of phase-change"
	OfExit        When = "after the main process ended"
	OfEvent       When = "for events"
	OfError       When = "for events of error"
	OfAgentEvent  When = "for events that a tenant published, if it sent the value"
	OfActivity    When = "at points of a claim, for its release, and for events that a tenant published, if it sent the value"
	OfTask        When = "for events that a tenant published, at wait points and for events of waits, if it sent the value"
	OfLimit       When = "for events of limits-exceeded"
	OfWait        When = "at wait points, and for events of waits"
	OfSignalData  When = "at wait_signal"
	OfSignal      When = "at wait_signal, and for wait.signal_received and wait.signalled"
	OfWaitTimeout When = "at wait_timeout, and for wait.expired, wait.retried, wait.timed_out, wait.escalated and wait.aborted"
)

// Type is what the text of a value is.
type Type string

// The types.
const (
	Text    Type = "text"
	Number  Type = "number"
	Boolean Type = "boolean"
	JSON    Type = "json"
)

// Rule describes a name that Hostler supplies. Secrets, the workload's
// environment and captured values have names of their own.
type Rule struct {
	Name    string
	Class   Class
	Type    Type // of trusted values; other ones only claim to be of it
	When    When
	Aliases []string // of other hook systems
	Doc     string
}

// ofWaits are the points and the types of events at which variables of waits have
// an occasion. Those of OfWait are all of waits.
var ofWaits = map[When][]string{
	OfWait:        {},
	OfSignalData:  {"wait_signal"},
	OfSignal:      {"wait_signal", "wait.signal_received", "wait.signalled"},
	OfWaitTimeout: {"wait_timeout", "wait.expired", "wait.retried", "wait.timed_out", "wait.escalated", "wait.aborted"},
}

// IsSuppliedAt reports whether the name has an occasion at a point or for a type of
// event. Variables of waits have one there only.
func (r Rule) IsSuppliedAt(on string) bool {
	occasions, isOfWait := ofWaits[r.When]
	if !isOfWait {
		return true
	}
	return slices.Contains(occasions, on) || r.When == OfWait && (strings.HasPrefix(on, "wait_") || strings.HasPrefix(on, "wait."))
}

var rules = []Rule{
	{Name: "CONTAINER_ID", Class: Trusted, Type: Text, When: OfContainer, Aliases: []string{"AGENT_ID", "AGENT_NAME", "AGENT_SLUG"}, Doc: "The container's id."},
	{Name: "WORKLOAD_ID", Class: Trusted, Type: Text, When: Always, Aliases: []string{"GROVE_ID", "GROVE_NAME", "GROVE_PATH", "SWARM_ID"}, Doc: "The workload's id, which is also its pool's."},
	{Name: "WORKLOAD_NAME", Class: Trusted, Type: Text, When: Always, Aliases: []string{"TEMPLATE_NAME"}, Doc: "The workload's display name."},
	{Name: "IMAGE", Class: Trusted, Type: Text, When: Always, Aliases: []string{"HARNESS_NAME", "HARNESS_CONFIG"}, Doc: "The workload's image."},
	{Name: "NODE", Class: Trusted, Type: Text, When: OfContainer, Doc: "The node that the container runs on."},
	{Name: "CLAIM_ID", Class: Trusted, Type: Text, When: OfClaim, Doc: "The claim's id."},
	{Name: "TENANT_ID", Class: Trusted, Type: Text, When: OfClaim, Doc: "The tenant's id."},
	{Name: "CLAIM_SOURCE", Class: Trusted, Type: Text, When: OfClaimSource, Doc: "What the container was before: fresh, affinity or recycled."},
	{Name: "RELEASE_REASON", Class: Trusted, Type: Text, When: AtPreRelease, Doc: "Why the claim is released."},
	{Name: "HOOK", Class: Trusted, Type: Text, When: Always, Aliases: []string{"HOOK_NAME"}, Doc: "The hook's name."},
	{Name: "POINT", Class: Trusted, Type: Text, When: AtPoint, Doc: "The hook's point."},
	{Name: "RUN_ID", Class: Trusted, Type: Text, When: Always, Doc: "The run's id, the same at every attempt."},
	{Name: "ATTEMPT", Class: Trusted, Type: Number, When: Always, Doc: "The number of the attempt, from 1."},
	{Name: "TIMESTAMP", Class: Trusted, Type: Text, When: Always, Doc: "The time of the event or of the point, the same at every attempt."},
	{Name: "EVENT_TYPE", Class: Trusted, Type: Text, When: Always, Aliases: []string{"EVENT"}, Doc: "The event's type, or the point."},
	{Name: "EVENT_SEQ", Class: Trusted, Type: Number, When: OfEvent, Doc: "The event's number, which grows."},
	{Name: "PHASE", Class: Trusted, Type: Text, When: OfStateChange, Doc: "The state after the change: provisioning, starting, running, stopping, stopped or error."},
	{Name: "PREVIOUS_PHASE", Class: Trusted, Type: Text, When: OfPhaseEvent, Doc: "The state before the change."},
	{Name: "EXIT_CODE", Class: Trusted, Type: Number, When: OfExit, Doc: "The exit code of the main process."},
	{Name: "SIGNAL", Class: Trusted, Type: Text, When: OfExit, Doc: "The signal that ended the main process."},
	{Name: "OOM_KILLED", Class: Trusted, Type: Boolean, When: OfExit, Doc: "Whether the out-of-memory killer ended a process: true or false."},
	{Name: "WAIT_DURATION", Class: Trusted, Type: Number, When: OfSignal, Doc: "How long the tenant waited, in milliseconds."},
	{Name: "TIMEOUT_THRESHOLD", Class: Trusted, Type: Number, When: OfWait, Doc: "How long the tenant waits at most, in milliseconds."},
	{Name: "TIMEOUT_DURATION", Class: Trusted, Type: Number, When: OfWaitTimeout, Doc: "How long the tenant waited, in milliseconds."},
	{Name: "EXCEEDED_BY", Class: Trusted, Type: Number, When: OfWaitTimeout, Doc: "How long the tenant waited after the deadline, in milliseconds."},

	{Name: "EVENT_MESSAGE", Type: Text, When: OfEvent, Doc: "The event's message."},
	{Name: "EVENT_DATA", Type: JSON, When: OfEvent, Doc: "The event's data, as JSON."},
	{Name: "TASK", Type: Text, When: OfTask, Doc: "What the tenant's program works on."},
	{Name: "TASK_SUMMARY", Type: Text, When: OfAgentEvent, Doc: "A summary of the task."},
	{Name: "ASSISTANT_TEXT", Type: Text, When: OfAgentEvent, Doc: "The text of a model."},
	{Name: "TOOL_NAME", Type: Text, When: OfAgentEvent, Doc: "The tool that is used."},
	{Name: "ERROR_MESSAGE", Type: Text, When: OfError, Doc: "The message of the error."},
	{Name: "ACTIVITY", Type: Text, When: OfActivity, Doc: "What the tenant's program last reported to do; after a change, the new activity."},
	{Name: "PREVIOUS_ACTIVITY", Type: Text, When: OfAgentEvent, Doc: "The activity before the change."},
	{Name: "LIMIT_NAME", Type: Text, When: OfLimit, Doc: "The limit that was exceeded."},
	{Name: "LIMIT_COUNT", Type: Number, When: OfAgentEvent, Doc: "The count that exceeded it."},
	{Name: "SIGNAL_DATA", Type: JSON, When: OfSignalData, Doc: "The signal's data, as JSON."},
	{Name: "WAIT_TYPE", Type: Text, When: OfWait, Aliases: []string{"BLOCKING_TYPE"}, Doc: "What the tenant waits for, such as consensus, validation or dependency."},
	{Name: "ITERATION", Type: Number, When: OfWait, Doc: "The iteration of the wait's context."},
	{Name: "WAIT_NAME", Type: Text, When: OfWait, Doc: "The wait's name."},
	{Name: "WAIT_PHASE", Type: Text, When: OfWait, Doc: "The phase of the wait's context."},
}

// Names returns the names that Hostler supplies, in the order of the
// documentation.
func Names() []Rule { return slices.Clone(rules) }

// RuleOf returns the rule of a name or an alias. ok is false if there is none.
func RuleOf(name string) (rule Rule, ok bool) {
	for _, r := range rules {
		if r.Name == name || slices.Contains(r.Aliases, name) {
			return r, true
		}
	}
	return Rule{}, false
}
