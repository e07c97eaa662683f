package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// newContextCmd returns the commands of contexts.
func newContextCmd() *cobra.Command {
	cmd := newGroupCmd("context", "Servers, and the credential for each", newContextAddCmd(), newContextUseCmd(),
		newContextListCmd(), newContextShowCmd(), newContextRemoveCmd())
	cmd.Long = "Keep servers with the credential for each.\n\n" + contextHelp
	return cmd
}

func newContextAddCmd() *cobra.Command {
	var c clientContext
	var login loginConfig
	cmd := &cobra.Command{
		Use: "add NAME --server URL", Short: "Add or replace a context",
		Long: `Add or replace a context. The first one becomes the current one.

With --issuer and --client-id the credential is a token: ` + "`hostler login`" + ` gets it.`,
		Example: "hostler context add prod --server https://hostler.example.com --api-key-file ~/.hostler-key",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !contextName.MatchString(args[0]) {
				return usagef(cmd, "%q is no name of a context: up to 63 lowercase letters, digits, - and _", args[0])
			}
			if _, err := client.New(c.Server, ""); err != nil {
				return usagef(cmd, "--server: %v", err)
			}
			if login.Issuer != "" || login.ClientID != "" {
				if c.KeyFile != "" {
					return usagef(cmd, "--api-key-file and --issuer: use only one of them")
				}
				c.Login = &login
				if err := login.check(); err != nil {
					return usagef(cmd, "%v", err)
				}
			}
			if path, isRelative := strings.CutPrefix(c.Server, "unix:"); isRelative && !strings.HasPrefix(path, "/") {
				if err := makeAbsolute(&path); err != nil {
					return err
				}
				c.Server = "unix://" + path
			}
			for _, path := range []*string{&c.KeyFile, &c.CAFile, &c.ClientCert, &c.ClientKey, &login.CAFile} {
				if err := makeAbsolute(path); err != nil {
					return err
				}
			}
			return changeContexts(func(f *contextFile) error { return f.add(args[0], c) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Server, "server", "", "address of the server: https://…, or unix:///… for a Unix socket")
	f.StringVar(&c.KeyFile, "api-key-file", "", "file with the API key; it is read for each command")
	f.StringVar(&c.CAFile, "ca-file", "", "file with the certificates that the server's is verified with")
	f.StringVar(&c.ClientCert, "client-cert", "", "file with this client's certificate")
	f.StringVar(&c.ClientKey, "client-key", "", "file with the key of this client's certificate")
	login.flags(f)
	return cmd
}

// makeAbsolute makes a path absolute: commands are run in other directories.
func makeAbsolute(path *string) (err error) {
	if *path != "" {
		*path, err = filepath.Abs(*path)
	}
	return err
}

// add adds a context. Tokens of a former one of the name, with another server or
// issuer, are not used, and not kept.
func (f *contextFile) add(name string, c clientContext) error {
	if old, ok := f.Contexts[name]; ok && (c.Login == nil || old.Server != c.Server || old.Login == nil || !old.Login.isSame(*c.Login)) {
		if err := removeTokens(f.path, name); err != nil {
			return err
		}
	}
	f.Contexts[name] = c
	if f.Current == "" {
		f.Current = name
	}
	return nil
}

func newContextUseCmd() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return changeContexts(func(f *contextFile) error {
				name, _, _, err := f.get(args[0])
				f.Current = name
				return err
			})
		},
	}
}

func newContextRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a context and its tokens", Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return changeContexts(func(f *contextFile) error {
				name, _, _, err := f.get(args[0])
				if err != nil {
					return err
				}
				delete(f.Contexts, name)
				if f.Current == name {
					f.Current = ""
				}
				return removeTokens(f.path, name)
			})
		},
	}
}

// shownContext is a context as it is printed.
type shownContext struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	clientContext
}

// credential describes a context's credential.
func (c clientContext) credential() string {
	switch {
	case c.KeyFile != "":
		return "key in " + c.KeyFile
	case c.Login != nil:
		return "login at " + c.Login.Issuer
	case c.ClientCert != "":
		return "certificate in " + c.ClientCert
	}
	return "none"
}

func newContextListCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "list", Short: "List the contexts", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := readContexts()
			if err != nil {
				return err
			}
			all, rows := []shownContext{}, [][]string{}
			for _, name := range f.names() {
				c := f.Contexts[name]
				all = append(all, shownContext{name, name == f.Current, c})
				mark := ""
				if name == f.Current {
					mark = "*"
				}
				rows = append(rows, []string{mark, name, c.Server, c.credential()})
			}
			return r.printResult(cmd.OutOrStdout(), all, func(w io.Writer) error {
				return writeTable(w, "CURRENT\tNAME\tSERVER\tCREDENTIAL", rows)
			})
		},
	}
	r.outputFlag(cmd)
	return cmd
}

func newContextShowCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "show [NAME]", Short: "Show a context, by default the current one", Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := readContexts()
			if err != nil {
				return err
			}
			name, c, ok, err := f.get(firstOf(args...))
			if err != nil {
				return err
			}
			if !ok {
				return &exitError{exitNotFound, fmt.Errorf("there is no current context; choose one with `hostler context use NAME`")}
			}
			shown := shownContext{name, name == f.Current, c}
			return r.printResult(cmd.OutOrStdout(), shown, func(w io.Writer) error {
				return writeTable(w, "NAME\tSERVER\tCREDENTIAL", [][]string{{name, c.Server, c.credential()}})
			})
		},
	}
	r.outputFlag(cmd)
	return cmd
}

// completeContexts completes the name of a context.
func completeContexts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	f, err := readContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.names(), cobra.ShellCompDirectiveNoFileComp
}
