package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// claimFlags are the flags with what a claim may have. Values of secret parameters
// are in files, because other users of the machine can see arguments.
type claimFlags struct {
	labels, parameters, parameterFiles, environment []string
	environmentFile                                 string
	expiresIn                                       time.Duration
}

func (f *claimFlags) flags(cmd *cobra.Command) {
	labelFlag(cmd, &f.labels, "a label of the claim, for filters; repeated for several")
	cmd.Flags().StringArrayVar(&f.parameters, "param", nil, "a parameter of the workload as NAME=VALUE; repeated for several")
	cmd.Flags().StringArrayVar(&f.parameterFiles, "param-file", nil, "a parameter as NAME=FILE, for secrets: its value is the content of the file without its last line break")
	cmd.Flags().StringArrayVar(&f.environment, "env", nil, "a variable of the main process as NAME=VALUE; repeated for several")
	cmd.Flags().StringVar(&f.environmentFile, "env-file", "", "a file with such variables, one on each line; lines that begin with # are ignored")
	cmd.Flags().Var(durationFlag{&f.expiresIn}, "expires-in", "how long the claim lasts, whatever its use: 1s to 720h (default until it is released)")
}

// labelFlag adds the flag of labels.
func labelFlag(cmd *cobra.Command, labels *[]string, usage string) {
	cmd.Flags().StringArrayVar(labels, "label", nil, usage+": NAME=VALUE")
}

// options returns what the flags say.
func (f *claimFlags) options(cmd *cobra.Command, wait time.Duration) (o client.ClaimOptions, err error) {
	o = client.ClaimOptions{Wait: wait, ExpiresIn: f.expiresIn}
	if o.Labels, err = named(cmd, "--label", f.labels); err != nil {
		return o, err
	}
	if o.Parameters, err = named(cmd, "--param", f.parameters); err != nil {
		return o, err
	}
	files, err := named(cmd, "--param-file", f.parameterFiles)
	if err != nil {
		return o, err
	}
	for name, file := range files {
		if _, twice := o.Parameters[name]; twice {
			return o, usagef(cmd, "%s is given by --param and --param-file", name)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return o, err
		}
		if o.Parameters == nil {
			o.Parameters = map[string]string{}
		}
		o.Parameters[name] = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	}
	lines := f.environment
	if f.environmentFile != "" {
		text, err := os.ReadFile(f.environmentFile)
		if err != nil {
			return o, err
		}
		lines = append(environmentLines(string(text)), lines...)
	}
	o.Environment, err = named(cmd, "--env", lines)
	return o, err
}

// environmentLines returns the lines of a file of variables.
func environmentLines(text string) []string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	return slices.DeleteFunc(lines, func(line string) bool {
		line = strings.TrimSpace(line)
		return line == "" || strings.HasPrefix(line, "#")
	})
}

// named reads NAME=VALUE. A later value of a name takes precedence. The error has no
// value.
func named(cmd *cobra.Command, flag string, given []string) (map[string]string, error) {
	all, err := parsePairs(given)
	if err != nil {
		return nil, usagef(cmd, "%s takes NAME=VALUE", flag)
	}
	return all, nil
}

// parseLabels is named without a command.
func parseLabels(given []string) (map[string]string, error) {
	all, err := parsePairs(given)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("--label: %w", err)}
	}
	return all, nil
}

var errNotPair = errors.New("it takes NAME=VALUE")

func parsePairs(given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	all := make(map[string]string, len(given))
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, errNotPair
		}
		all[name] = value
	}
	return all, nil
}

// joinedPairs returns names with values for a table.
func joinedPairs(all map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return strings.Join(list, ",")
}

// wideClaimRow is a line of a table of claims with lifetimes and labels.
func wideClaimRow(c client.Claim) []string {
	expires := ""
	if c.ExpiresAt != nil {
		expires = timestamp(*c.ExpiresAt)
	}
	return []string{
		c.ID, c.Workload, c.Tenant, string(c.State), healthOf(c), string(c.Source), c.Container, timestamp(c.CreatedAt), expires,
		oneLine(joinedPairs(c.Labels)), oneLine(joinedPairs(c.Parameters)), oneLine(c.Reason),
	}
}

func newTouchCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "touch CLAIM",
		Short: "Record that a claim is in use",
		Long: `Record that a claim is in use, for workloads with a claim_idle_ttl: it is released
when it was not touched for that long. A claim that has ended is an error.`,
		Example: "  hostler touch 0198c1f0-7d3e-7aaa-8a4b-3f6c6a1d2e5f",
		Args:    cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			got, err := c.Touch(ctx, args[0])
			if err != nil {
				return err
			}
			if got.ReleasedAt != nil {
				return &exitError{exitFailure, fmt.Errorf("claim %s is %s; claim again", got.ID, got.State)}
			}
			return r.printResult(cmd.OutOrStdout(), got, func(w io.Writer) error {
				until := "its workload has no claim_idle_ttl"
				if got.IdleExpiresAt != nil {
					until = "idle until " + timestamp(*got.IdleExpiresAt)
				}
				_, err := fmt.Fprintf(w, "claim %s touched: %s\n", got.ID, until)
				return err
			})
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	r.flags(cmd)
	return cmd
}

func newExtendCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "extend CLAIM DURATION",
		Short: "Extend a claim's lifetime",
		Long: `Move the end of the lifetime of an active claim that was made with --expires-in.
Each call moves it again.`,
		Example: "  hostler extend 0198c1f0-7d3e-7aaa-8a4b-3f6c6a1d2e5f 30m",
		Args:    cobra.ExactArgs(2),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			by, err := parseDuration(args[1])
			if err != nil {
				return usagef(cmd, "%v", err)
			}
			got, err := c.Extend(ctx, args[0], by)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), got, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "claim %s expires %s\n", got.ID, timestamp(*got.ExpiresAt))
				return err
			})
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	r.flags(cmd)
	return cmd
}
