package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/memory"
)

// memoryFlags are the flags that all commands of memory share.
type memoryFlags struct {
	remote
	claim, levelName string
	level            client.MemoryLevel // that levelName is of
}

func (m *memoryFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.claim, "claim", "", "the id of the claim")
	cmd.Flags().StringVar(&m.levelName, "level", "", "whom the values belong to: claim (default), tenant or workload")
	must(cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions([]string{"claim", "tenant", "workload"}, cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("claim", m.complete(claimIDs)))
	m.remote.flags(cmd)
}

// wrap returns a command's RunE, which calls do with a client.
func (m *memoryFlags) wrap(do func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return m.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
		if m.claim == "" {
			return usagef(cmd, "name the claim with --claim")
		}
		level, err := memory.ParseLevel(m.levelName)
		if err != nil {
			return usagef(cmd, "--level %q is not claim, tenant or workload", m.levelName)
		}
		m.level = client.MemoryLevel(level)
		return do(ctx, cmd, c, args)
	})
}

func newMemoryCmd() *cobra.Command {
	cmd := newGroupCmd("memory", "Read and change JSON values that claims keep",
		newMemoryPutCmd(), newMemoryGetCmd(), newMemoryDeleteCmd(), newMemoryListCmd())
	cmd.Long = `Read and change JSON values that hooks, tenants' programs and this command keep
under keys, through an active claim. The level is whom a value belongs to:

  claim     the claim; it ends with it (also named agent)
  tenant    the tenant's claims on the workload; until 24 h after the last one
            (also named swarm)
  workload  all claims on the workload, whose file must say memory.shared; it
            ends with the workload (also named project)`
	return cmd
}

// conditionFlag is the version that a value must have.
type conditionFlag struct{ version int64 }

func (f *conditionFlag) flag(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&f.version, "if-version", 0, "only if the value has this version; 0: only if there is none (default whatever it has)")
}

func (f *conditionFlag) condition(cmd *cobra.Command) *int64 {
	if !cmd.Flags().Changed("if-version") {
		return nil
	}
	return &f.version
}

// maxStdin bounds what is read of a value; the server accepts less.
const maxStdin = 1 << 20

func newMemoryPutCmd() *cobra.Command {
	var m memoryFlags
	var f conditionFlag
	var data string
	cmd := &cobra.Command{
		Use:   "put KEY --claim CLAIM",
		Short: "Put a value",
		Long: `Put a JSON value of at most 64 KiB under a key: the value of --data, or what
stdin has.`,
		Example: `  hostler memory put plan --claim 0199c2a4-7d1e-7c5e-9f3a-2b1c4d5e6f70 --data '["build", "test"]'`,
		Args:    cobra.ExactArgs(1),
		RunE: m.wrap(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			value := []byte(data)
			if !cmd.Flags().Changed("data") {
				var err error
				if value, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxStdin)); err != nil {
					return fmt.Errorf("read the value: %w", err)
				}
			}
			if len(bytes.TrimSpace(value)) == 0 {
				return usagef(cmd, "the value is empty: give JSON with --data or on stdin")
			}
			item, err := c.PutMemory(ctx, m.claim, m.level, args[0], value, f.condition(cmd))
			if err != nil {
				return err
			}
			return m.printResult(cmd.OutOrStdout(), item, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s has version %d\n", sanitize(item.Key), item.Version)
				return err
			})
		}),
	}
	cmd.Flags().StringVar(&data, "data", "", "the value, as JSON (default read from stdin)")
	f.flag(cmd)
	m.flags(cmd)
	return cmd
}

func newMemoryGetCmd() *cobra.Command {
	var m memoryFlags
	cmd := &cobra.Command{
		Use:   "get KEY --claim CLAIM",
		Short: "Print a value",
		Long:  "Print the value under a key as JSON; with -o json also its version and size.",
		Args:  cobra.ExactArgs(1),
		RunE: m.wrap(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			v, err := c.GetMemory(ctx, m.claim, m.level, args[0])
			if err != nil {
				return err
			}
			return m.printResult(cmd.OutOrStdout(), v, func(w io.Writer) error { return printValue(w, v.Value) })
		}),
	}
	m.flags(cmd)
	return cmd
}

// printValue prints a value of a tenant.
func printValue(to io.Writer, value json.RawMessage) error {
	w := sanitizeFor(to, isTerminal(to))
	if _, err := fmt.Fprintln(w, string(value)); err != nil {
		return err
	}
	return w.Close()
}

func newMemoryDeleteCmd() *cobra.Command {
	var m memoryFlags
	var f conditionFlag
	cmd := &cobra.Command{
		Use:   "delete KEY --claim CLAIM",
		Short: "Delete a value",
		Long:  "Delete the value under a key. Without --if-version it succeeds if there is none.",
		Args:  cobra.ExactArgs(1),
		RunE: m.wrap(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			got, err := c.DeleteMemory(ctx, m.claim, m.level, args[0], f.condition(cmd))
			if err != nil {
				return err
			}
			return m.printResult(cmd.OutOrStdout(), got, func(w io.Writer) error {
				text := "deleted"
				if !got.Deleted {
					text = "there was no value"
				}
				_, err := fmt.Fprintln(w, text)
				return err
			})
		}),
	}
	f.flag(cmd)
	m.flags(cmd)
	return cmd
}

func newMemoryListCmd() *cobra.Command {
	var m memoryFlags
	var f client.MemoryFilter
	cmd := &cobra.Command{
		Use:   "list --claim CLAIM",
		Short: "Show the keys",
		Args:  cobra.NoArgs,
		RunE: m.wrap(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			f.Level = m.level
			items, err := c.Memory(ctx, m.claim, f)
			if err != nil {
				return err
			}
			return m.printResult(cmd.OutOrStdout(), items, func(w io.Writer) error {
				rows := make([][]string, len(items))
				for i, item := range items {
					rows[i] = []string{item.Key, strconv.FormatInt(item.Version, 10), strconv.FormatInt(item.Bytes, 10), timestamp(item.UpdatedAt)}
				}
				return writeTable(w, "KEY VERSION BYTES UPDATED", rows)
			})
		}),
	}
	cmd.Flags().StringVar(&f.Prefix, "prefix", "", "only keys that begin with it")
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "at most this many (default all)")
	m.flags(cmd)
	return cmd
}
