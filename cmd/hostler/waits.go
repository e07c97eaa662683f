package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/jsonvalue"
)

// waitExits are the exit codes of waits that ended without a signal.
var waitExits = map[client.WaitState]int{
	client.WaitTimedOut: exitTimedOut, client.WaitAborted: exitAborted, client.WaitCancelled: exitCancelled,
}

func newWaitCmd() *cobra.Command {
	var r remote
	var request client.WaitRequest
	var text string
	cmd := &cobra.Command{
		Use:   "wait CLAIM --type TYPE --timeout DURATION",
		Short: "Wait for a signal",
		Long: `Wait for a signal to a claim and print its data as JSON. The hooks of wait_start
run before the clock starts, those of wait_signal after the signal, and those of
wait_timeout after the deadline: the last one of these may decide what becomes of
the wait.

The wait continues in the server if this command is interrupted. While a wait of
the name is open, the command waits for that one.`,
		Example: "  hostler wait 0199... --type consensus --timeout 60s --name review",
		Args:    cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if request.Type == "" || request.Timeout <= 0 {
				return usagef(cmd, "name what to wait for with --type and how long with --timeout")
			}
			if request.Context = json.RawMessage(text); text != "" && !json.Valid(request.Context) {
				return usagef(cmd, "--context is not JSON")
			}
			stop := startSpinner(cmd.ErrOrStderr(), "waiting for a signal")
			w, err := c.Wait(ctx, args[0], request)
			stop()
			if err != nil {
				return err
			}
			return r.printWait(cmd.OutOrStdout(), w)
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	f := cmd.Flags()
	f.StringVar(&request.Type, "type", "", "what to wait for: consensus, validation, dependency or another lower-case word")
	f.DurationVar(&request.Timeout, "timeout", 0, "how long to wait")
	f.StringVar(&request.Name, "name", "", "the name of the signal (default none)")
	f.StringVar((*string)(&request.OnTimeout), "on-timeout", "", "what to do after the deadline unless a hook decides: abort, retry, extend or escalate (default escalate)")
	f.StringVar(&request.RequestID, "request-id", "", "an id of this wait: the same one returns to it, also after its end")
	f.StringVar(&text, "context", "", "JSON for the hooks, with task, iteration and phase as variables")
	r.flags(cmd)
	return cmd
}

// printWait prints the data of the signal, or returns the error of another end.
func (r *remote) printWait(w io.Writer, got client.Wait) error {
	err := r.printResult(w, got, func(w io.Writer) error {
		if got.State != client.WaitSignalled {
			return nil
		}
		_, err := fmt.Fprintln(w, string(jsonvalue.Escaped(got.Data, isUnsafe)))
		return err
	})
	if code, ok := waitExits[got.State]; ok && err == nil {
		return &exitError{code, fmt.Errorf("the wait was not signalled: it is %s", got.State)}
	}
	return err
}

func newSignalCmd() *cobra.Command {
	var r remote
	var name, data string
	cmd := &cobra.Command{
		Use:   "signal CLAIM --data JSON",
		Short: "Send a signal to a wait",
		Long: `Send data to the open wait of a name of a claim. If none waits now, the signal is
kept for the next one, until the claim ends; at most 16 are kept for a name.`,
		Example: `  hostler signal 0199... --name review --data '{"action": "approved"}'`,
		Args:    cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if data != "" && !json.Valid([]byte(data)) {
				return usagef(cmd, "--data is not JSON")
			}
			got, err := c.Signal(ctx, args[0], name, json.RawMessage(data))
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), got, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, signalResult(got))
				return err
			})
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	cmd.Flags().StringVar(&name, "name", "", "the name of the wait (default none)")
	cmd.Flags().StringVar(&data, "data", "", "JSON for the program that waits (default null)")
	r.flags(cmd)
	return cmd
}

func signalResult(d client.SignalResult) string {
	if d.Wait != "" {
		return "signal received by wait " + d.Wait
	}
	return fmt.Sprintf("signal kept for the next wait of its name; %d kept", d.Kept)
}

// waitKind is how get shows waits.
func waitKind() kind[client.Wait] {
	return kind[client.Wait]{
		name: "waits", one: "wait", short: "Show open waits, or those in other states",
		header: "ID CLAIM TENANT TYPE NAME STATE ROUND DEADLINE REASON",
		flags: func(cmd *cobra.Command, f *filters) {
			f.flags(cmd, "workload", "tenant", "claim")
			f.listFlags(cmd, waitStates)
		},
		list: listWaits,
		get: func(ctx context.Context, c *client.Client, id string) ([]client.Wait, error) {
			w, err := c.GetWait(ctx, id)
			return []client.Wait{w}, err
		},
		ids: waitIDs, row: waitRow,
	}
}

// listWaits lists the open waits, unless states are given.
func listWaits(ctx context.Context, c *client.Client, f filters) ([]client.Wait, error) {
	states := typedAs[client.WaitState](f.states)
	if len(states) == 0 {
		states = []client.WaitState{client.WaitStarting, client.WaitWaiting, client.WaitSignalling, client.WaitTimingOut}
	}
	return c.Waits(ctx, client.WaitFilter{Workload: f.workload, Claim: f.claim, Tenant: f.tenant, States: states, Limit: f.limit, Newest: f.newest})
}

func waitIDs(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := listWaits(ctx, c, filters{limit: maxCompletions, newest: true})
	return idsOf(items, func(w client.Wait) string { return w.ID }), err
}

func waitRow(w client.Wait) []string {
	deadline := ""
	if w.Deadline != nil && w.State.IsOpen() {
		deadline = timestamp(*w.Deadline)
	}
	return []string{w.ID, w.Claim, w.Tenant, w.Type, w.Name, string(w.State), strconv.Itoa(w.Round), deadline, oneLine(w.Reason)}
}
