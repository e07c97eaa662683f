package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// deliveryKind is how get shows deliveries.
func deliveryKind() kind[client.Delivery] {
	var hook string
	return kind[client.Delivery]{
		name: "deliveries", one: "delivery", short: "Show deliveries of events to event hooks",
		header: "ID WORKLOAD HOOK EVENT SEQ STATE ATTEMPTS DUE REASON",
		flags: func(cmd *cobra.Command, f *filters) {
			cmd.Flags().StringVar(&hook, "hook", "", "only those of this hook")
			f.flags(cmd, "workload", "tenant", "container", "claim")
			f.listFlags(cmd, deliveryStates)
		},
		list: func(ctx context.Context, c *client.Client, f filters) ([]client.Delivery, error) {
			return c.Deliveries(ctx, client.DeliveryFilter{
				Workload: f.workload, Hook: hook, Tenant: f.tenant, Container: f.container, Claim: f.claim,
				States: typedAs[client.DeliveryState](f.states), Limit: f.limit, Newest: f.newest,
			})
		},
		get: getOne((*client.Client).Delivery), ids: deliveryIDs, row: deliveryRow,
	}
}

func deliveryRow(d client.Delivery) []string {
	due := ""
	if d.DueAt != nil {
		due = timestamp(*d.DueAt)
	}
	return []string{
		d.ID, d.Workload, d.Hook, string(d.Event), strconv.FormatInt(d.Seq, 10), string(d.State), strconv.Itoa(d.Attempts), due, oneLine(d.Reason),
	}
}

func deliveryIDs(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := c.Deliveries(ctx, client.DeliveryFilter{Limit: maxCompletions, Newest: true})
	return idsOf(items, func(d client.Delivery) string { return d.ID }), err
}

func newRetryCmd() *cobra.Command {
	return newGroupCmd("retry", "Retry deliveries", newDeliveryCmd("Attempt a delivery again",
		`Have a delivery attempted as soon as possible. One that has failed, or was
discarded, gets all of its retries again.`, "will be attempted", (*client.Client).RetryDelivery))
}

func newDiscardCmd() *cobra.Command {
	return newGroupCmd("discard", "Discard deliveries", newDeliveryCmd("Discard a delivery that waits",
		"Discard a delivery that waits. The next one of its hook and container follows.", "discarded", (*client.Client).DiscardDelivery))
}

// newDeliveryCmd returns the command that changes a delivery.
func newDeliveryCmd(short, long, done string, do func(*client.Client, context.Context, string) (client.Delivery, error)) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "delivery ID", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			d, err := do(c, ctx, args[0])
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), d, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "delivery %s of %s to hook %s %s\n", d.ID, d.Event, d.Hook, done)
				return err
			})
		}),
		ValidArgsFunction: r.complete(deliveryIDs),
	}
	r.flags(cmd)
	return cmd
}

func newReplayCmd() *cobra.Command {
	var r remote
	var hook string
	var from, to int64
	cmd := &cobra.Command{
		Use:   "replay WORKLOAD --hook NAME --from SEQ [--to SEQ]",
		Short: "Deliver old events to an event hook again",
		Long: `Deliver the events of a workload from a place in the log to another one again, to
one of its event hooks. They are new deliveries, with new keys. "hostler events"
shows the places.`,
		Example: "  hostler hooks replay greeter --hook notify --from 1200",
		Args:    cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if hook == "" || from < 1 {
				return usagef(cmd, "name the hook with --hook and the first event with --from")
			}
			got, err := c.ReplayEvents(ctx, args[0], hook, client.Replay{From: from, To: to})
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), got, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%d deliveries to hook %s added\n", got.Deliveries, hook)
				return err
			})
		}),
		ValidArgsFunction: r.complete(workloadIDs),
	}
	cmd.Flags().StringVar(&hook, "hook", "", "the name of the event hook")
	cmd.Flags().Int64Var(&from, "from", 0, "the place of the first event in the log")
	cmd.Flags().Int64Var(&to, "to", 0, "the place of the last event (default the end of the log)")
	r.flags(cmd)
	return cmd
}
