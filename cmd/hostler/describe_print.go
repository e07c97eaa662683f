package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/client"
)

// describedText is the text of a description: fields, and sections of lines. All of
// it is sanitized when it is written.
type describedText struct{ lines []string }

// field adds a line with a name and a value, if it has one.
func (t *describedText) field(name, value string) {
	if value != "" {
		t.lines = append(t.lines, fmt.Sprintf("%-14s %s", name, strings.Join(strings.Fields(value), " ")))
	}
}

// section adds a title and indented lines, if there are any.
func (t *describedText) section(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	t.lines = append(t.lines, "", title)
	for _, line := range lines {
		t.lines = append(t.lines, strings.TrimRight("  "+flat(line), " "))
	}
}

func printDescription(w io.Writer, d description) error {
	t := &describedText{}
	switch d.Kind {
	case "pool":
		t.pool(*d.Pool, d.Workload)
	case "claim":
		t.claim(*d.Claim)
		if d.Container != nil {
			t.field("health", string(d.Container.Health))
			t.field("node", d.Container.Node)
		}
	default:
		t.container(*d.Container)
	}
	if d.Kind == "claim" {
		t.section("Steps", stepLines(d.Claim.Timings))
	}
	t.section("Containers", tableLines("ID STATE HEALTH TENANT CREATED REASON", d.Containers, func(c client.Container) []string {
		return []string{c.ID, string(c.State), string(c.Health), c.Tenant, timestamp(c.CreatedAt), oneLine(c.Reason)}
	}))
	t.section("Claims", tableLines("ID TENANT STATE CONTAINER CREATED REASON", d.Claims, func(c client.Claim) []string {
		return []string{c.ID, c.Tenant, string(c.State), c.Container, timestamp(c.CreatedAt), oneLine(c.Reason)}
	}))
	t.section(map[bool]string{true: "Failed hooks", false: "Hooks"}[d.Kind == "pool"], runLines(d.Runs))
	t.section("Output of the main process", printedLines(d.Log))
	t.section("Events", eventLines(d.Events))
	t.section("Findings", findingLines(d.Findings))
	t.section("What to do", d.Next)
	t.section("Not shown", d.Missing)
	_, err := fmt.Fprintln(w, sanitize(strings.Join(t.lines, "\n")))
	return err
}

func (t *describedText) pool(p client.Pool, w *client.Workload) {
	t.field("pool", p.Workload)
	state := string(p.Fill.State)
	if p.Deleting {
		state += ", is deleted with its last container"
	}
	t.field("fill", state)
	t.field("containers", fmt.Sprintf("%d idle, %d claimed, %d creating, %d destroying (min_idle %d, max_size %d)",
		p.Containers[client.ContainerIdle], p.Containers[client.ContainerClaimed], p.Containers[client.ContainerCreating],
		p.Containers[client.ContainerDestroying], p.MinIdle, p.MaxSize))
	t.number("kept", p.Kept)
	t.number("outdated", p.Outdated)
	t.number("waiting", p.Waiting)
	t.number("failures", p.Fill.Failures)
	t.field("last error", p.Fill.LastError)
	t.time("failed", p.Fill.LastErrorAt)
	t.time("next try", p.Fill.NextTry)
	if w != nil {
		t.field("image", w.Image)
		t.field("revision", w.Revision)
		t.time("updated", &w.UpdatedAt)
	}
}

func (t *describedText) claim(c client.Claim) {
	t.field("claim", c.ID)
	t.field("state", string(c.State))
	t.field("reason", c.Reason)
	t.field("workload", c.Workload)
	t.field("tenant", c.Tenant)
	t.field("claimed by", c.Actor)
	t.field("container", c.Container)
	t.field("source", string(c.Source))
	for _, port := range c.Endpoint.Ports {
		t.field("endpoint", net.JoinHostPort(c.Endpoint.Host, strconv.Itoa(port)))
	}
	t.field("labels", joinedPairs(c.Labels))
	t.field("activity", activityOf(c.Activity, c.ActivityTool))
	t.number("open waits", c.Waits)
	t.number("failures", c.Failures)
	t.field("cause", string(c.FailureReason))
	t.time("next retry", c.RetryAt)
	t.time("created", &c.CreatedAt)
	t.time("active", c.ActiveAt)
	t.time("touched", c.TouchedAt)
	t.time("synced", c.SyncedAt)
	t.time("idle until", c.IdleExpiresAt)
	t.time("expires", c.ExpiresAt)
	t.time("ended", c.ReleasedAt)
	for _, warning := range c.Warnings {
		t.field("warning", warning)
	}
}

func (t *describedText) container(c client.Container) {
	t.field("container", c.ID)
	t.field("state", string(c.State))
	t.field("health", string(c.Health))
	t.field("reason", c.Reason)
	t.field("workload", c.Workload)
	t.field("revision", c.Revision)
	t.field("tenant", c.Tenant)
	t.field("claim", c.Claim)
	t.field("node", c.Node)
	t.field("forced", c.Forced)
	for _, port := range c.Endpoint.Ports {
		t.field("endpoint", net.JoinHostPort(c.Endpoint.Host, strconv.Itoa(port)))
	}
	t.time("created", &c.CreatedAt)
	t.time("changed", &c.ChangedAt)
	t.time("wiped", c.WipedAt)
}

func (t *describedText) number(name string, n int) {
	if n != 0 {
		t.field(name, strconv.Itoa(n))
	}
}

func (t *describedText) time(name string, at *time.Time) {
	if at != nil && !at.IsZero() {
		t.field(name, timestamp(*at))
	}
}

// stepLines returns the steps of a claim with their times, the longest first: a
// record does not have their order.
func stepLines(timings map[string]float64) []string {
	var lines []string
	for _, step := range slices.SortedFunc(maps.Keys(timings), func(a, b string) int {
		return cmp.Or(cmp.Compare(timings[b], timings[a]), cmp.Compare(a, b))
	}) {
		lines = append(lines, fmt.Sprintf("%-20s %8.1f ms", step, timings[step]))
	}
	return lines
}

// tableLines returns the lines of a table, none for no items.
func tableLines[T any](header string, items []T, row func(T) []string) []string {
	if len(items) == 0 {
		return nil
	}
	var b strings.Builder
	rows := make([][]string, len(items))
	for i, item := range items {
		rows[i] = row(item)
	}
	must(writeTable(&b, header, rows)) // a builder takes everything
	return printedLines(b.String())
}

// printedLines returns the lines of a text that is not trusted.
func printedLines(text string) []string {
	if text = strings.TrimRight(sanitizeLines(text), "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// runLines returns a line for each attempt of a hook, with the end of its output.
func runLines(runs []client.Run) []string {
	var lines []string
	for _, r := range runs {
		how := string(r.State)
		if r.ExitCode != nil && *r.ExitCode != 0 {
			how += fmt.Sprintf(", exit code %d", *r.ExitCode)
		}
		if r.Error != "" {
			how += ", " + oneLine(r.Error)
		}
		lines = append(lines, fmt.Sprintf("%s  %s %s, attempt %d: %s in %.1f ms (run %s)",
			timestamp(r.StartedAt), occasion(r), sanitize(r.Hook), r.Attempt, how, r.Duration, r.ID))
		for _, stream := range []client.Output{r.Stdout, r.Stderr} {
			for _, line := range printedLines(lastLines(stream.String(), describedLines)) {
				lines = append(lines, "  | "+line)
			}
		}
	}
	return lines
}

func eventLines(events []client.Event) []string {
	var lines []string
	for _, e := range events {
		message := strings.Join(strings.Fields(e.Message), " ")
		if e.Untrusted {
			message += " [untrusted] " + oneLine(string(e.Data))
		}
		lines = append(lines, fmt.Sprintf("%6d  %s  %-21s  %s", e.Seq, timestamp(e.Time), sanitize(string(e.Type)), message))
	}
	return lines
}

func findingLines(findings []client.Finding) []string {
	var lines []string
	for _, f := range findings {
		lines = append(lines, fmt.Sprintf("%s: %s", f.Severity, strings.Join(strings.Fields(f.Message), " ")))
	}
	return lines
}
