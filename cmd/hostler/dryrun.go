package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

func newHooksTestCmd() *cobra.Command {
	var r remote
	var given []string
	var live string
	cmd := &cobra.Command{
		Use:   "test WORKLOAD POINT|EVENT [--var NAME=VALUE]... [--live CLAIM]",
		Short: "Show what hooks would do, or run them once as a test",
		Long: `Show what the hooks of a workload would do at a point or for an event: their
variables and what supplies them, the result of their conditions, and the request,
or the command with its environment. Nothing is sent and nothing runs; secrets are
shown as •••. --var gives a variable a value; others have samples. A value that only
a response supplies is missing.

With --live the hooks of a point run once in the container of an active claim,
without retries, and what they do they do. The runs are recorded as tests, which
"hostler get runs" shows with an event such as test.post_claim; the claim does
not change. The exit status is 5 when a hook fails.`,
		Example: "  hostler hooks test greeter post_claim --var TENANT_ID=alice\n  hostler hooks test greeter claim.failed --var EVENT_MESSAGE='no room'",
		Args:    cobra.ExactArgs(2),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if live != "" {
				return runLiveTest(ctx, cmd, c, &r, args, live, given)
			}
			d := client.DryRun{On: args[1], Variables: map[string]string{}}
			for _, g := range given {
				name, value, ok := strings.Cut(g, "=")
				if !ok || name == "" {
					return usagef(cmd, "--var %q is not NAME=VALUE", g)
				}
				d.Variables[name] = value
			}
			report, err := c.DryRun(ctx, args[0], d)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), report, func(w io.Writer) error {
				return printDryRun(w, report)
			})
		}),
		ValidArgsFunction: r.complete(workloadIDs),
	}
	cmd.Flags().StringArrayVar(&given, "var", nil, "the value of a variable, NAME=VALUE; may be repeated")
	cmd.Flags().StringVar(&live, "live", "", "run the hooks of the point once in the container of this claim")
	r.flags(cmd)
	return cmd
}

// runLiveTest runs the hooks of a point in the container of a claim.
func runLiveTest(ctx context.Context, cmd *cobra.Command, c *client.Client, r *remote, args []string, claim string, given []string) error {
	if len(given) > 0 {
		return usagef(cmd, "--var is for dry runs: hooks that run have their own values")
	}
	if held, err := c.GetClaim(ctx, claim); err != nil {
		return err
	} else if held.Workload != args[0] {
		return usagef(cmd, "claim %s is of workload %s", claim, held.Workload)
	}
	test, err := c.TestHooks(ctx, claim, client.Point(args[1]))
	if err != nil {
		return err
	}
	err = r.printResult(cmd.OutOrStdout(), test, func(w io.Writer) error {
		if len(test.Runs) == 0 {
			return printLines(w, []string{fmt.Sprintf("%s has no hooks for %s", args[0], test.Point)})
		}
		var list []string
		for _, run := range test.Runs {
			list = append(list, fmt.Sprintf("hook %s: %s in %.1f ms (run %s)", run.Hook, run.State, run.Duration, run.ID))
			list = append(list, textLines("error", run.Error)...)
			list = append(list, textLines("stdout", run.Stdout.Head+run.Stdout.Tail)...)
			list = append(list, textLines("stderr", run.Stderr.Head+run.Stderr.Tail)...)
		}
		return printLines(w, list)
	})
	failed := func(run client.Run) bool { return run.State != client.RunSucceeded && run.State != client.RunSkipped }
	if err == nil && slices.ContainsFunc(test.Runs, failed) {
		return &exitError{code: exitHook}
	}
	return err
}

// printDryRun prints each hook as a block of lines.
func printDryRun(w io.Writer, report client.DryRunReport) error {
	if len(report.Hooks) == 0 {
		return printLines(w, []string{fmt.Sprintf("%s has no hooks for %s%s", report.Workload, report.Point, report.Event)})
	}
	var list []string
	for i, h := range report.Hooks {
		if i > 0 {
			list = append(list, "")
		}
		list = append(list, dryRunLines(h)...)
	}
	return printLines(w, list)
}

func dryRunLines(h client.DryRunHook) []string {
	list := []string{fmt.Sprintf("hook %s (%s, timeout %gs): %s", h.Name, h.Action, h.Timeout/1000, dryRunResult(h))}
	for _, v := range h.Variables {
		value := v.Value
		switch {
		case v.Missing:
			value = "is missing"
		default:
			value = "= " + flat(value)
		}
		untrusted := ""
		if v.Untrusted {
			untrusted = ", untrusted"
		}
		list = append(list, fmt.Sprintf("  variable %s %s (%s%s)", v.Name, value, v.Source, untrusted))
	}
	switch {
	case h.Request != nil:
		list = append(list, "  "+h.Request.Method+" "+h.Request.URL)
		list = append(list, mapLines("header", ": ", h.Request.Headers)...)
		list = append(list, textLines("body", h.Request.Body)...)
		for _, warning := range h.Request.Warnings {
			list = append(list, "  warning: "+warning)
		}
	case h.Command != nil:
		list = append(list, fmt.Sprintf("  command %q", h.Command.Args))
		list = append(list, textLines("script", h.Command.Script)...)
		list = append(list, textLines("user", h.Command.User)...)
		list = append(list, textLines("workdir", h.Command.Workdir)...)
		list = append(list, mapLines("environment", "=", h.Command.Environment)...)
		list = append(list, textLines("stdin", h.Command.Stdin)...)
	case h.Builtin != nil:
		list = append(list, fmt.Sprintf("  builtin %s %v", h.Builtin.Name, h.Builtin.With))
	}
	return list
}

// dryRunResult returns whether a hook would run, or why not.
func dryRunResult(h client.DryRunHook) string {
	switch {
	case h.Disabled:
		return "disabled"
	case !h.Holds:
		return "skipped: its condition is false: " + h.Condition
	case h.Error != "":
		return "fails: " + h.Error
	case h.Condition != "":
		return "runs: its condition is true: " + h.Condition
	}
	return "runs"
}

func mapLines(what, between string, m map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, "  "+what+" "+name+between+flat(m[name]))
	}
	return list
}

// flat returns a text without line breaks.
func flat(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }

// textLines returns the lines of a text below its name, or next to it if it has
// one.
func textLines(what, text string) []string {
	text = strings.TrimSuffix(text, "\n")
	switch {
	case text == "":
		return nil
	case !strings.Contains(text, "\n"):
		return []string{"  " + what + " " + text}
	}
	list := []string{"  " + what}
	for line := range strings.Lines(text) {
		list = append(list, "    "+strings.TrimSuffix(line, "\n"))
	}
	return list
}
