package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/client"
)

// eventPage is how many events are asked for at once.
const eventPage = 500

func newEventsCmd() *cobra.Command {
	var r remote
	var f filters
	var types []string
	var q client.EventQuery
	var follow bool
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened, and with -f what happens",
		Long: `Show the activity log, oldest event first: since an hour ago, unless --since or
--after say otherwise. With -f it goes on; a lost connection is made again, and
no event is missed or shown twice. With -o json or yaml each event is a document
of its own.`,
		Example: "  hostler events -f --type hook,claim.failed --workload greeter",
		Args:    cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			if q.After != "" && q.Since != "" {
				return usagef(cmd, "name either --after or --since")
			}
			if q.After == "" && q.Since == "" {
				q.Since = "1h"
			}
			q.Filter = activity.Filter{
				Types: typedAs[activity.Type](types), Workload: f.workload, Container: f.container,
				Tenant: f.tenant, Claim: f.claim, Point: f.point,
			}
			out := cmd.OutOrStdout()
			show := func(e api.FollowedEvent) error { return r.printEvent(out, e) }
			if follow {
				return c.Follow(ctx, q, show)
			}
			return eachEvent(ctx, c, q, show)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens")
	cmd.Flags().StringVar(&q.After, "after", "", "events after this place in the log; 0 for all")
	cmd.Flags().StringVar(&q.Since, "since", "", "events since a time (RFC 3339) or since so long ago, such as 10m")
	cmd.Flags().StringSliceVar(&types, "type", nil, "only events of these types, or of these things: hook.failed, claim")
	f.flags(cmd, "workload", "tenant", "container", "claim", "point")
	r.flags(cmd)
	return cmd
}

// eachEvent reads the log to its present end.
func eachEvent(ctx context.Context, c *client.Client, q client.EventQuery, show func(api.FollowedEvent) error) error {
	for {
		page, err := c.Events(ctx, q, eventPage)
		if err != nil {
			return err
		}
		if page.OldestSeq != 0 {
			cut := activity.Event{Type: api.LogTruncated, Message: fmt.Sprintf("events before %d were deleted", page.OldestSeq)}
			if err := show(api.FollowedEvent{Event: cut, OldestSeq: page.OldestSeq}); err != nil {
				return err
			}
		}
		for _, e := range page.Items {
			if err := show(api.FollowedEvent{Event: e}); err != nil {
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

// colours are those of the verbs that stand out.
var colours = map[string]string{
	"failed": red, "unhealthy": red, "died": red, "warning": yellow, "skipped": yellow, "cut": yellow,
	"completed": green, "activated": green,
}

func (r *remote) printEvent(w io.Writer, e api.FollowedEvent) error {
	switch r.output {
	case "json":
		return json.NewEncoder(w).Encode(e)
	case "yaml":
		fmt.Fprintln(w, "---")
		return printYAML(w, e)
	}
	kind := fmt.Sprintf("%-21s", e.Type)
	if _, verb, ok := strings.Cut(string(e.Type), "."); ok && hasColours(w) && colours[verb] != "" {
		kind = colours[verb] + kind + resetColour
	}
	about := strings.Join(strings.Fields(strings.Join([]string{e.Workload, e.Tenant, e.Container}, " ")), " ")
	_, err := fmt.Fprintf(w, "%6d  %s  %s  %-30s  %s\n", e.Seq, timestamp(e.Time), kind, sanitize(about), oneLine(e.Message))
	return err
}
