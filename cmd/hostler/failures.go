package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hostler/hostler/client"
)

// destroyed returns what the request to destroy a container has done. The record of
// a claimed one stays claimed until its claim is released.
func destroyed(c client.Container) string {
	if c.State != client.ContainerClaimed {
		return fmt.Sprintf("container %s %s", c.ID, c.State)
	}
	return fmt.Sprintf("container %s is being destroyed; its claim %s of tenant %s has lost it: `hostler release %s` ends the claim",
		c.ID, c.Claim, sanitize(c.Tenant), c.Claim)
}

// lastLine is how much of the output of a container a line of an event shows.
const lastLine = 160

// lastOutput returns the last line that a container printed before it failed, unless
// the message of the event has it, and the command that shows the rest.
func lastOutput(e client.Event) string {
	if e.Type != client.EventContainerDied && e.Type != client.EventContainerUnhealthy {
		return ""
	}
	var data struct {
		Output struct {
			Excerpt string `json:"excerpt"`
		} `json:"output"`
	}
	if json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(data.Output.Excerpt), "\n")
	last := []rune(oneLine(lines[len(lines)-1]))
	if len(last) == 0 {
		return ""
	}
	shown := ""
	if !strings.Contains(e.Message, "last output: ") {
		shown = "; last output: " + string(last[:min(len(last), lastLine)])
	}
	return shown + "; `hostler logs --container " + e.Container + "`"
}
