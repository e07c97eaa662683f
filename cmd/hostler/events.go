package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/client"
)

// eventPage is the maximum number of events in one request.
const eventPage = 500

func newEventsCmd() *cobra.Command {
	var r remote
	var f filters
	var types []string
	var q client.EventQuery
	var follow bool
	var untrusted string
	var minPriority int
	var actor string
	var labels []string
	var last int
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show the event log, and follow it with -f",
		Long: `Show the event log, oldest event first: the last hour by default, see --since,
--after and -n. With -f the command follows the log: it reconnects after a lost
connection, and no event is missed or shown twice. With -o json or yaml each
event is a document of its own. What a tenant's program published is marked as
untrusted.`,
		Example: "  hostler events -n 20 -f --type hook,claim.failed --workload greeter",
		Args:    cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			if err := checkStart(cmd, &q, last); err != nil {
				return err
			}
			ofLabels, err := named(cmd, "--label", labels)
			if err != nil {
				return err
			}
			q.EventFilter = client.EventFilter{
				Types: typedAs[client.EventType](types), Workload: f.workload, Container: f.container,
				Tenant: f.tenant, Claim: f.claim, Point: f.point, MinPriority: minPriority, Actor: actor, Run: f.run, Labels: ofLabels,
			}
			switch untrusted {
			case "true", "false":
				q.Untrusted = new(untrusted == "true")
			case "":
			default:
				return usagef(cmd, "--untrusted takes true or false")
			}
			out := cmd.OutOrStdout()
			show := func(e client.FollowedEvent) error { return r.printEvent(out, e) }
			if last > 0 {
				next, err := lastEvents(ctx, c, q, last, show)
				if err != nil || !follow {
					return err
				}
				q.After = next
			}
			if follow {
				return c.Follow(ctx, q, show)
			}
			return eachEvent(ctx, c, q, show)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the log")
	cmd.Flags().StringVar(&q.After, "after", "", "events after this sequence number; 0 for all")
	cmd.Flags().StringVar(&q.Since, "since", "", "events since a time (RFC 3339) or a duration ago, such as 10m or 1d")
	cmd.Flags().IntVarP(&last, "last", "n", 0, "only the last events, this many: 1 to 1000; with --since or --after, of the events from there")
	cmd.Flags().StringSliceVar(&types, "type", nil, "only events of these types, or about these objects: hook.failed, claim, agent.*")
	cmd.Flags().StringVar(&actor, "actor", "", "only what this actor caused, such as key:NAME or system")
	labelFlag(cmd, &labels, "only those of claims with this label")
	cmd.Flags().IntVar(&minPriority, "min-priority", 0, "of the events that tenants' programs published, those of this priority and above")
	cmd.Flags().StringVar(&untrusted, "untrusted", "", "true: only events that tenants' programs published; false: only the others")
	f.flags(cmd, "workload", "tenant", "container", "claim", "run", "point")
	completeWords(cmd, "type", eventTypes()...)
	completeWords(cmd, "untrusted", "true", "false")
	r.flags(cmd)
	r.completeFilters(cmd)
	return cmd
}

// eventTypes returns the types of events, and what they are about, for --type.
func eventTypes() []string {
	var all []string
	for _, t := range activity.Types() {
		thing, _, _ := strings.Cut(string(t), ".")
		if !slices.Contains(all, thing) {
			all = append(all, thing)
		}
	}
	return append(all, idsOf(activity.Types(), func(t activity.Type) string { return string(t) })...)
}

// maxLastEvents is the most that the server returns at once.
const maxLastEvents = 1000

// checkStart checks the flags that name the first event, and sets the default.
func checkStart(cmd *cobra.Command, q *client.EventQuery, last int) error {
	if cmd.Flags().Changed("last") && (last < 1 || last > maxLastEvents) {
		return usagef(cmd, "-n takes a number from 1 to %d", maxLastEvents)
	}
	if q.After != "" && q.Since != "" {
		return usagef(cmd, "name only one of --after and --since, which both name the first event; -n with either shows the last of the events from there")
	}
	if last == 0 && q.After == "" && q.Since == "" {
		q.Since = "1h"
	}
	since, err := sinceOf(q.Since)
	if err != nil {
		return usagef(cmd, "%v", err)
	}
	q.Since = since
	return nil
}

// lastEvents calls show for the newest events, of those from the beginning that the
// query may name, and returns where the log continues.
func lastEvents(ctx context.Context, c *client.Client, q client.EventQuery, n int, show func(client.FollowedEvent) error) (string, error) {
	first, err := firstEvent(ctx, c, q)
	if err != nil {
		return "", err
	}
	page, err := c.LastEvents(ctx, client.EventQuery{EventFilter: q.EventFilter}, n)
	if err != nil {
		return "", err
	}
	for _, e := range page.Items {
		if e.Seq < first {
			continue
		}
		if err := show(client.FollowedEvent{Event: e}); err != nil {
			return "", err
		}
	}
	return strconv.FormatInt(page.Next, 10), nil
}

// firstEvent returns the number of the first event from the beginning that the query
// names: 0 if it names none, and the end of the log if no event is there. The
// server finds it, whose clock wrote the times.
func firstEvent(ctx context.Context, c *client.Client, q client.EventQuery) (int64, error) {
	if q.After == "" && q.Since == "" {
		return 0, nil
	}
	for {
		page, err := c.Events(ctx, q, 1)
		if err != nil {
			return 0, err
		}
		if len(page.Items) > 0 {
			return page.Items[0].Seq, nil
		}
		next := strconv.FormatInt(page.Next, 10)
		if next == q.After {
			return page.Next + 1, nil
		}
		q.After, q.Since = next, ""
	}
}

// eachEvent calls show for each event up to the present end of the log.
func eachEvent(ctx context.Context, c *client.Client, q client.EventQuery, show func(client.FollowedEvent) error) error {
	for {
		page, err := c.Events(ctx, q, eventPage)
		if err != nil {
			return err
		}
		if page.OldestSeq != 0 {
			cut := client.Event{Type: client.LogTruncated, Message: fmt.Sprintf("events before %d were deleted", page.OldestSeq)}
			if err := show(client.FollowedEvent{Event: cut, OldestSeq: page.OldestSeq}); err != nil {
				return err
			}
		}
		for _, e := range page.Items {
			if err := show(client.FollowedEvent{Event: e}); err != nil {
				return err
			}
		}
		next := strconv.FormatInt(page.Next, 10)
		if next == q.After {
			return nil
		}
		q.After, q.Since = next, ""
	}
}

// colors are the colors of event types, by the verb at their end.
var colors = map[string]string{
	"failed": red, "unhealthy": red, "died": red, "warning": yellow, "skipped": yellow, "cut": yellow,
	"completed": green, "activated": green,
}

// ownActors are actors that are not shown: what Hostler does by itself, and a server
// without credentials.
var ownActors = map[string]bool{"system": true, "local": true}

func (r *remote) printEvent(w io.Writer, e client.FollowedEvent) error {
	safe := sanitizeFor(w, isTerminal(w))
	switch r.output {
	case "json":
		return json.NewEncoder(safe).Encode(e)
	case "yaml":
		fmt.Fprintln(w, "---")
		return errors.Join(printYAML(safe, e), safe.Close())
	}
	kind := fmt.Sprintf("%-21s", e.Type)
	if _, verb, ok := strings.Cut(string(e.Type), "."); ok && hasColors(w) && colors[verb] != "" {
		kind = colors[verb] + kind + resetColor
	}
	about := strings.Join(strings.Fields(strings.Join([]string{e.Workload, e.Tenant, e.Container}, " ")), " ")
	message := fitted(w, oneLine(e.Message))
	if e.Untrusted {
		message += " [untrusted] " + fitted(w, oneLine(string(e.Data)))
	}
	if e.Run != "" && e.Type == client.EventHookFailed {
		message += "; `hostler logs " + e.Run + "`"
	}
	message += lastOutput(e.Event)
	if e.Actor != "" && !ownActors[e.Actor] {
		message += " (" + oneLine(e.Actor) + ")"
	}
	_, err := fmt.Fprintf(w, "%6d  %s  %s  %-30s  %s\n", e.Seq, timestamp(e.Time), kind, sanitize(about), message)
	return err
}
