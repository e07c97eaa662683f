package main

import (
	"context"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/hooks/request"
)

// trialOptions are the flags of try.
type trialOptions struct {
	config      serveConfig // of the private server
	parent      string      // directory of the directories of trials
	tenant      string
	terms       claimFlags
	hold        time.Duration
	timeout     time.Duration
	watch       bool
	clean       bool
	out, errOut io.Writer
}

func newTryCmd() *cobra.Command {
	o := trialOptions{config: serveConfig{store: sqlite}}
	cmd := &cobra.Command{
		Use:   "try FILE | --clean",
		Short: "Try a workload file: one container, every point once",
		Long: `Create one container of a workload file, claim it for a tenant, release it and
destroy it, on a private server of this command. The hooks of each point run
once, in the order of a container's life; those of waits run if the workload has
any. What the main process prints is shown as it comes, what a hook has printed
when it ends, and at the end what each step and hook took.

Everything is removed again, also after a failure or Ctrl-C, which runs the hooks
for releasing and destroying. A second Ctrl-C ends the command at once. What that
or a kill leaves behind is removed by the next "hostler try", or by --clean.

Tenants' state (sync) is kept in a temporary directory, whatever sink the file
names. Requests of hooks are sent. hooks_from finds workloads in the directory of
FILE. Secrets of hooks are those of this command's environment, and of the
directory --credentials-dir.

The exit status is 0 if all of it succeeded, 1 if the file has errors, the
container did not start or its main process exited, and 5 if a hook failed whose
on_error is not continue. With --watch it all happens again when the file, or a
seed of its volumes, changes, until Ctrl-C.`,
		Example: "  hostler try workload.yaml --runtime process\n  hostler try workload.yaml --watch --param region=eu",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.clean == (len(args) == 1) {
				return usagef(cmd, "name a workload file, or give --clean")
			}
			if _, ok := backends[o.config.runtime]; !ok {
				return usagef(cmd, "--runtime is auto, docker, process or kubernetes")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the command
			// Everything is removed even if the output is no longer read.
			signal.Ignore(syscall.SIGPIPE)
			o.out, o.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			o.config.redactor = new(request.Redactor)
			if o.clean {
				return o.removeLeftovers(ctx)
			}
			if _, err := o.terms.options(cmd, 0); err != nil {
				return err
			}
			if err := o.removeLeftovers(ctx); err != nil {
				o.printf("what an earlier, interrupted trial has left could not be removed: %v", err)
			}
			if o.watch {
				return o.watchFile(ctx, cmd, args[0])
			}
			return o.try(ctx, cmd, args[0])
		},
	}
	o.flags(cmd)
	return cmd
}

func (o *trialOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.config.runtime, "runtime", "auto", "container runtime: auto (docker), docker, kubernetes, or process (no isolation: for files that you trust)")
	f.StringVar(&o.tenant, "tenant", "try", "the tenant that claims the container")
	o.terms.flags(cmd)
	f.BoolVar(&o.watch, "watch", false, "try again when the file changes")
	f.DurationVar(&o.hold, "hold", 0, "how long to keep the claim before its release, to use the container")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long the container may take to be ready")
	f.BoolVar(&o.clean, "clean", false, "only remove what an interrupted trial has left")
	f.StringVar(&o.parent, "data", defaultData()+"-try", "directory of what the command keeps while it runs")
	f.StringVar(&o.config.shim, "shim", "", "the hostler-shim binary (default: next to this program)")
	f.StringVar(&o.config.shimImage, "shim-image", "", "on kubernetes, the image that has hostler-shim")
	f.StringVar(&o.config.kubeconfig, "kubeconfig", "", "on kubernetes, the kubeconfig file")
	f.StringVar(&o.config.namespace, "namespace", "", "on kubernetes, the namespace of the container")
	f.StringVar(&o.config.credentialsDir, "credentials-dir", "", "directory of the files that hooks' secrets may name, and of the key of secret parameters (default: one with a new key)")
	f.StringSliceVar(&o.config.hooksAllow, "hooks-allow", nil, "hosts, addresses and CIDRs that requests of hooks may be sent to, in addition to global and private addresses")
}

// failedTrial ends the command with a code; the summary has the reason.
func failedTrial(code int) error { return &exitError{code: code} }
