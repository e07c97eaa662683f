package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

const defaultServer = "http://127.0.0.1:8700"

// remote is the server that a command calls, and its output format.
type remote struct {
	server     string
	context    string
	keyFile    string
	caFile     string
	clientCert string
	clientKey  string
	output     string
	named      bool // -o name is an output format
}

// flags adds the flags that all client commands share.
func (r *remote) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.server, "server", "", "address of the server, or unix:PATH of its Unix socket (default $HOSTLER_SERVER, else that of the context, else "+defaultServer+")")
	if f.Lookup("context") == nil { // that of hostler wait is another one
		f.StringVar(&r.context, "context", "", "context to use (default $HOSTLER_CONTEXT, else the one of hostler context use)")
	}
	f.StringVar(&r.keyFile, "api-key-file", "", "file with the API key (default $HOSTLER_API_KEY_FILE; the key itself may be in $HOSTLER_API_KEY)")
	f.StringVar(&r.caFile, "ca-file", "", "file with the certificates that the server's is verified with (default $HOSTLER_CA_FILE, else the system's)")
	f.StringVar(&r.clientCert, "client-cert", "", "file with this client's certificate (default $HOSTLER_CLIENT_CERT)")
	f.StringVar(&r.clientKey, "client-key", "", "file with the key of that certificate (default $HOSTLER_CLIENT_KEY)")
	r.outputFlag(cmd)
}

func (r *remote) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&r.output, "output", "o", "table", "output format: table, json or yaml")
	must(cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return r.formats(), cobra.ShellCompDirectiveNoFileComp
	}))
}

// nameFlags is flags for a command whose result has ids, which -o name prints.
func (r *remote) nameFlags(cmd *cobra.Command) {
	r.flags(cmd)
	r.named = true
	cmd.Flags().Lookup("output").Usage = "output format: table, json, yaml, or name for ids only"
}

// formats returns the output formats of the command.
func (r *remote) formats() []string {
	all := []string{"table", "json", "yaml"}
	if r.named {
		all = append(all, "name")
	}
	return all
}

// must panics on an error that only a mistake in this program can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// client returns the client of the server that the flags and the environment
// name.
func (r *remote) client(cmd *cobra.Command) (*client.Client, error) {
	if r.output != "" && !slices.Contains(r.formats(), r.output) {
		return nil, usagef(cmd, "-o %q is not one of %s", r.output, strings.Join(r.formats(), ", "))
	}
	t, err := r.target(cmd)
	if err != nil {
		return nil, err
	}
	o, err := t.options()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithOptions(t.Server, o)
	if err != nil {
		return nil, usagef(cmd, "%v", err)
	}
	return c, nil
}

// firstKey returns the first key of a file in the format of the server's.
func firstKey(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if _, key, named := strings.Cut(line, ":"); named {
			line = strings.TrimSpace(key)
		}
		return strings.Fields(line + " ")[0] // its role and tenants may follow
	}
	return ""
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// wrapErrors returns a command's RunE, which calls do with a client.
func (r *remote) wrapErrors(do func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		if args, err = completeIDs(cmd.Context(), cmd, c, args); err != nil {
			return err
		}
		return aboutWorkload(cmd, args, do(cmd.Context(), cmd, c, args))
	}
}

// completeTimeout is the timeout of a shell completion.
const completeTimeout = 2 * time.Second

// complete returns a completion of the first argument with ids of the server.
func (r *remote) complete(ids func(ctx context.Context, c *client.Client) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := r.client(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), completeTimeout, client.ErrNoResponse)
		defer cancel()
		found, err := ids(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
