package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/client"
)

// What to do about an object in a state. {id} stands for its id.
var (
	nextOfClaim = map[client.ClaimState]string{
		client.ClaimPending:       "it waits for a container or its hooks run: `hostler events -f --claim {id}` follows it",
		client.ClaimActive:        "run a command in it with `hostler exec {id} -- COMMAND`, and end it with `hostler release {id}`",
		client.ClaimReleasing:     "its hooks run or its state is uploaded: `hostler events -f --claim {id}` follows it",
		client.ClaimReleaseFailed: "`hostler release {id}` retries now; `hostler release {id} --discard` gives up what has changed since the last snapshot",
		client.ClaimFailed:        "claim again when the cause is gone",
	}
	nextOfFill = map[client.FillState]string{
		client.FillBackingOff: "the last container failed, and the next one is tried by itself",
		client.FillFailing:    "containers fail one after another, and the next one is tried by itself: correct the cause and apply the workload again",
		client.FillDraining:   "no container is created: `hostler scale {id} --min-idle N` fills the pool again",
	}
	nextOfContainer = map[client.ContainerState]string{
		client.ContainerCreating:   "`hostler events -f --container {id}` follows it",
		client.ContainerDestroying: "`hostler events -f --container {id}` follows it; `hostler delete container {id} --now --force` ends its hooks",
	}
)

// addNext adds what to do: what doctor says first, and then what follows from the
// state.
func (d *describer) addNext() {
	add := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" && !slices.Contains(d.Next, text) {
			d.Next = append(d.Next, text)
		}
	}
	addFor := func(text string) { add("%s", strings.ReplaceAll(text, "{id}", d.ID)) }
	for _, f := range d.Findings {
		add("%s", f.Hint)
	}
	if r := lastFailed(d.description.Runs); r != nil {
		add("see the whole output of hook %s with `hostler logs %s`", r.Hook, r.ID)
	}
	switch {
	case d.Kind == "pool" && d.description.Pool.Deleting:
		add("it is deleted with its last container: release its claims, or apply the workload again")
	case d.Kind == "pool":
		addFor(nextOfFill[d.description.Pool.Fill.State])
		if d.lastGone != "" {
			add("see the container that failed last with `hostler describe container %s`", d.lastGone)
		}
		if p := d.description.Pool; p.Waiting > 0 && p.Containers[client.ContainerClaimed] >= p.MaxSize {
			add("claims wait and all containers are claimed: raise max_size with `hostler scale %s --max-size N`", d.ID)
		}
	case d.Kind == "claim":
		d.addNextOfClaim(add, addFor)
	case d.description.Container.Claim != "":
		add("see its claim with `hostler describe claim %s`", d.description.Container.Claim)
	default:
		addFor(nextOfContainer[d.description.Container.State])
	}
}

// addNextOfClaim adds what to do about a claim. No command runs in a container that
// has exited.
func (d *describer) addNextOfClaim(add func(string, ...any), addFor func(string)) {
	c, health := d.description.Claim, client.Healthy
	if b := d.description.Container; b != nil && b.Claim == d.ID && b.Health != "" {
		health = b.Health
	}
	if c.State == client.ClaimFailed && slices.ContainsFunc(d.description.Events, func(e client.Event) bool { return e.Type == client.EventSyncFailed }) {
		add("the tenant's state could not be downloaded: `hostler snapshots verify --workload %s --tenant %s` checks what is stored, "+
			"and `hostler snapshots restore SNAPSHOT` makes an older snapshot the current one", c.Workload, c.Tenant)
	}
	if c.State != client.ClaimActive || health != client.Exited {
		addFor(nextOfClaim[c.State])
	}
	if health != client.Healthy {
		add("its container is %s: release it, and claim again", health)
	}
}

// lastFailed returns the last attempt if it failed, or the last one that failed of
// hooks that were not tried again.
func lastFailed(runs []client.Run) *client.Run {
	ended := map[string]bool{}
	for _, r := range slices.Backward(runs) {
		if ended[r.ID] {
			continue
		}
		ended[r.ID] = true
		if !slices.Contains([]client.RunState{client.RunSucceeded, client.RunRunning, client.RunSkipped}, r.State) {
			return &r
		}
	}
	return nil
}
