package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/client"
)

func newBindingCmd() *cobra.Command {
	cmd := newGroupCmd("binding", "Give roles to holders of tokens and certificates, and to users of the server's machine",
		newBindingApplyCmd(), newBindingListCmd(), newBindingDeleteCmd())
	cmd.Long = `Give roles to the holders of tokens of other issuers (oidc), of certificates of
clients (cert), and to users of the server's machine (unix).`
	return cmd
}

func newBindingApplyCmd() *cobra.Command {
	var r remote
	var file string
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Add bindings, or change them",
		Long: `Send the bindings of a YAML file to the server: one, a list, or a list under the key
bindings. "-" is the standard input. Applying the same file again changes nothing.

  bindings:
    - name: developers
      kind: oidc
      issuer: https://id.example.com
      claims: {groups: dev-*}
      role: author
      workloads: ["web-*"]`,
		Example: "  hostler binding apply -f bindings.yaml",
		Args:    cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			if file == "" {
				return usagef(cmd, "name a file with -f")
			}
			text, err := readFile(cmd.InOrStdin(), file)
			if err != nil {
				return err
			}
			all, err := parseBindings(text)
			if err != nil {
				return fmt.Errorf("read the bindings of %s: %w", file, err)
			}
			return applyBindings(ctx, cmd, c, &r, all)
		}),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file of bindings")
	must(cmd.MarkFlagFilename("file", "yaml", "yml", "json"))
	r.flags(cmd)
	return cmd
}

// applyBindings sends bindings, up to the first that is refused.
func applyBindings(ctx context.Context, cmd *cobra.Command, c *client.Client, r *remote, all []client.Binding) error {
	for _, b := range all {
		put, created, err := c.PutBinding(ctx, b)
		if err != nil {
			return fmt.Errorf("binding %s: %w", b.Name, err)
		}
		done := map[bool]string{true: "created", false: "applied"}[created]
		err = r.printResult(cmd.OutOrStdout(), put, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "binding %s %s\n", sanitize(put.Name), done)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// parseBindings reads bindings: one, a list, or a list under the key bindings.
func parseBindings(text []byte) ([]client.Binding, error) {
	var content any
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&content); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if m, ok := content.(map[string]any); ok && m["bindings"] != nil && len(m) == 1 {
		content = m["bindings"]
	} else if ok {
		content = []any{m}
	}
	encoded, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	var all []client.Binding
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("the file has no bindings")
	}
	for i, b := range all {
		if b.Name == "" {
			return nil, fmt.Errorf("bindings[%d].name: name the binding", i)
		}
	}
	return all, nil
}

func bindingNames(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := c.Bindings(ctx)
	return idsOf(items[:min(len(items), maxCompletions)], func(b client.Binding) string { return b.Name }), err
}

func newBindingListCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "list", Short: "Show the bindings, also those of the bindings file", Args: cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			all, err := c.Bindings(ctx)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), all, func(w io.Writer) error {
				var rows [][]string
				for _, b := range all {
					g := client.Grant{Role: b.Role, Tenants: b.Tenants, Workloads: b.Workloads}
					cells := append([]string{b.Name, b.Kind, oneLine(b.Issuer), oneLine(b.Subject)}, grantCells([]client.Grant{g})...)
					rows = append(rows, append(cells, b.Source))
				}
				return writeTable(w, "NAME KIND ISSUER SUBJECT ROLE TENANTS WORKLOADS SOURCE", rows)
			})
		}),
	}
	r.flags(cmd)
	return cmd
}

func newBindingDeleteCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete a binding", Args: cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if err := c.DeleteBinding(ctx, args[0]); err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), map[string]string{"name": args[0], "state": "deleted"}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "binding %s deleted\n", sanitize(args[0]))
				return err
			})
		}),
		ValidArgsFunction: r.complete(bindingNames),
	}
	r.flags(cmd)
	return cmd
}
