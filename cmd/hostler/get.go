package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// filters are the flags that filter a list. Each list has a subset of them.
type filters struct {
	workload, tenant, container, claim, run, point string
	states, known                                  []string
	limit, last                                    int
	newest                                         bool
	labels                                         []string
	failed, wide                                   bool
	since                                          string
}

// flags adds the named filters.
func (f *filters) flags(cmd *cobra.Command, names ...string) {
	texts := map[string]*string{
		"workload": &f.workload, "tenant": &f.tenant, "container": &f.container, "claim": &f.claim, "run": &f.run, "point": &f.point,
	}
	for _, name := range names {
		cmd.Flags().StringVar(texts[name], name, "", "only those of this "+name)
	}
}

// listFlags adds the flags that lists with states share.
func (f *filters) listFlags(cmd *cobra.Command, states []string) {
	f.known = states
	cmd.Flags().StringSliceVar(&f.states, "state", nil, "only those in these states: "+strings.Join(states, ", "))
	completeWords(cmd, "state", states...)
	cmd.Flags().IntVar(&f.limit, "limit", 0, "maximum number of results, the oldest (default all)")
	cmd.Flags().IntVar(&f.last, "last", 0, "only the newest, this many, the newest first")
}

// check returns what is wrong with the flags, and sets the order of the list.
func (f *filters) check(cmd *cobra.Command) error {
	if f.limit < 0 || f.last < 0 || f.limit > 0 && f.last > 0 {
		return usagef(cmd, "name either --limit or --last, a positive number")
	}
	if f.last > 0 {
		f.limit, f.newest = f.last, true
	}
	since, err := sinceOf(f.since)
	if err != nil {
		return usagef(cmd, "%v", err)
	}
	f.since = since
	return checkStates(cmd, f.states, f.known)
}

// kind is a kind of object that get shows.
type kind[T any] struct {
	name, one, short string
	header           string
	flags            func(*cobra.Command, *filters)
	list             func(context.Context, *client.Client, filters) ([]T, error)
	get              func(context.Context, *client.Client, string) ([]T, error)
	row              func(T) []string
	other            func(filters) (header string, row func(T) []string) // nil: always header and row
	ids              func(context.Context, *client.Client) ([]string, error)
}

// command returns the command that gets objects of this kind.
func (k kind[T]) command() *cobra.Command {
	var r remote
	var f filters
	var watched watchFlags
	cmd := &cobra.Command{
		Use: k.name + " [ID]", Aliases: []string{k.one}, Short: k.short,
		Args: cobra.MaximumNArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if k.other != nil {
				k.header, k.row = k.other(f)
			}
			if err := watched.check(cmd); err != nil {
				return err
			}
			if watched.on {
				return k.watch(ctx, c, watched.printer(&r, cmd.OutOrStdout()), f, args)
			}
			items, err := k.fetch(ctx, c, f, args)
			if err != nil {
				return err
			}
			var shown any = items
			if len(args) == 1 && len(items) == 1 {
				shown = items[0]
			}
			return r.printResult(cmd.OutOrStdout(), shown, func(w io.Writer) error {
				rows := make([][]string, len(items))
				for i, item := range items {
					rows[i] = k.row(item)
				}
				return writeTable(w, k.header, rows)
			})
		}),
		ValidArgsFunction: r.complete(k.ids),
	}
	if k.flags != nil {
		k.flags(cmd, &f)
	}
	watched.flags(cmd)
	r.nameFlags(cmd)
	r.completeFilters(cmd)
	return cmd
}

func (k kind[T]) fetch(ctx context.Context, c *client.Client, f filters, args []string) ([]T, error) {
	if len(args) == 1 {
		return k.get(ctx, c, args[0])
	}
	return k.list(ctx, c, f)
}

// getOne turns a call that returns one object into one that returns a list.
func getOne[T any](get func(*client.Client, context.Context, string) (T, error)) func(context.Context, *client.Client, string) ([]T, error) {
	return func(ctx context.Context, c *client.Client, id string) ([]T, error) {
		item, err := get(c, ctx, id)
		return []T{item}, err
	}
}

// unfiltered turns a list call without filters into one that ignores them.
func unfiltered[T any](list func(*client.Client, context.Context) ([]T, error)) func(context.Context, *client.Client, filters) ([]T, error) {
	return func(ctx context.Context, c *client.Client, _ filters) ([]T, error) { return list(c, ctx) }
}

// newGetCmd returns get, with a command for each kind of object.
func newGetCmd() *cobra.Command {
	return newGroupCmd("get", "Show workloads, pools, containers, claims, hook runs, deliveries, waits or events",
		kind[client.Workload]{
			name: "workloads", one: "workload", short: "Show workloads",
			header: "ID STATE REVISION MIN_IDLE MAX_SIZE IMAGE UPDATED",
			list:   unfiltered((*client.Client).Workloads), get: getOne((*client.Client).Workload), ids: workloadIDs, row: workloadRow,
		}.command(),
		kind[client.Pool]{
			name: "pools", one: "pool", short: "Show pools: the containers in each state, and the state of the fill loop",
			header: "WORKLOAD IDLE CLAIMED CREATING DESTROYING MIN_IDLE MAX_SIZE WAITING FILL LAST_ERROR",
			list:   unfiltered((*client.Client).Pools), get: getOne((*client.Client).Pool), ids: workloadIDs, row: poolRow,
		}.command(),
		kind[client.Container]{
			name: "containers", one: "container", short: "Show existing containers, or destroyed ones with --state destroyed",
			header: "ID WORKLOAD STATE HEALTH TENANT CLAIM CREATED REASON",
			flags: func(cmd *cobra.Command, f *filters) {
				f.flags(cmd, "workload", "tenant")
				f.listFlags(cmd, containerStates)
			},
			list: func(ctx context.Context, c *client.Client, f filters) ([]client.Container, error) {
				return c.Containers(ctx, client.ContainerFilter{Workload: f.workload, Tenant: f.tenant, States: typedAs[client.ContainerState](f.states), Limit: f.limit, Newest: f.newest})
			},
			get: getOne((*client.Client).Container), ids: containerIDs, row: containerRow,
		}.command(),
		kind[client.Claim]{
			name: "claims", one: "claim", short: "Show live claims, or those in other states",
			other: claimColumns,
			flags: func(cmd *cobra.Command, f *filters) {
				cmd.Flags().BoolVar(&f.failed, "failed", false, "claims whose release failed, with the failures, the next retry and the reason")
				cmd.Flags().BoolVar(&f.wide, "wide", false, "with the end of the lifetime, the labels and the parameters")
				labelFlag(cmd, &f.labels, "only those with this label")
				f.flags(cmd, "workload", "tenant", "container")
				f.listFlags(cmd, claimStates)
			},
			list: func(ctx context.Context, c *client.Client, f filters) ([]client.Claim, error) {
				if f.failed {
					f.states = append(f.states, string(client.ClaimReleaseFailed))
				}
				labels, err := parseLabels(f.labels)
				if err != nil {
					return nil, err
				}
				return c.Claims(ctx, client.ClaimFilter{
					Workload: f.workload, Tenant: f.tenant, Container: f.container, States: typedAs[client.ClaimState](f.states), Limit: f.limit, Newest: f.newest, Labels: labels,
				})
			},
			get: getOne((*client.Client).GetClaim), ids: claimIDs,
		}.command(),
		kind[client.Run]{
			name: "runs", one: "run", short: "Show hook runs, one line for each attempt",
			header: "RUN ATTEMPT POINT HOOK STATE EXIT MS WORKLOAD TENANT STARTED",
			flags: func(cmd *cobra.Command, f *filters) {
				f.flags(cmd, "workload", "tenant", "container", "claim", "point")
				cmd.Flags().StringVar(&f.since, "since", "", "only attempts that have started since a time (RFC 3339) or a duration ago, such as 10m or 1d")
				f.listFlags(cmd, runStates)
			},
			list: func(ctx context.Context, c *client.Client, f filters) ([]client.Run, error) {
				return c.Runs(ctx, client.RunFilter{
					Workload: f.workload, Tenant: f.tenant, Container: f.container, Claim: f.claim,
					Point: client.Point(f.point), States: typedAs[client.RunState](f.states), Limit: f.limit, Newest: f.newest,
					Since: f.since, NoOutput: true,
				})
			},
			get: func(ctx context.Context, c *client.Client, id string) ([]client.Run, error) { return c.Run(ctx, id) },
			ids: runIDs, row: runRow,
		}.command(),
		deliveryKind().command(),
		newEventsCmd(),
		waitKind().command(),
		newGetHooksCmd(),
		newGetCommandsCmd(),
	)
}

// typedAs converts words to a string type.
func typedAs[S ~string](words []string) []S {
	out := make([]S, len(words))
	for i, w := range words {
		out[i] = S(w)
	}
	return out
}

func workloadRow(w client.Workload) []string {
	return []string{w.ID, workloadState(w), w.Revision, strconv.Itoa(w.Pool.MinIdle), strconv.Itoa(w.Pool.MaxSize), w.Image, timestamp(w.UpdatedAt)}
}

// workloadState returns whether containers of a workload can be claimed.
func workloadState(w client.Workload) string {
	switch {
	case w.Deleting:
		return "deleting"
	case w.Draining:
		return "draining"
	}
	return "applied"
}

func poolRow(s client.Pool) []string {
	row := []string{s.Workload}
	for _, state := range []client.ContainerState{client.ContainerIdle, client.ContainerClaimed, client.ContainerCreating, client.ContainerDestroying} {
		row = append(row, strconv.Itoa(s.Containers[state]))
	}
	return append(row, strconv.Itoa(s.MinIdle), strconv.Itoa(s.MaxSize), strconv.Itoa(s.Waiting), string(s.Fill.State), oneLine(s.Fill.LastError))
}

func containerRow(c client.Container) []string {
	return []string{c.ID, c.Workload, string(c.State), string(c.Health), c.Tenant, c.Claim, timestamp(c.CreatedAt), oneLine(c.Reason)}
}

// claimColumns returns the columns of a table of claims.
func claimColumns(f filters) (string, func(client.Claim) []string) {
	if f.failed {
		return "ID WORKLOAD TENANT STATE CONTAINER FAILURES CAUSE RETRY_AT REASON", failedClaimRow
	}
	if f.wide {
		return "ID WORKLOAD TENANT STATE HEALTH SOURCE CONTAINER CREATED EXPIRES LABELS PARAMETERS REASON", wideClaimRow
	}
	return "ID WORKLOAD TENANT STATE HEALTH SOURCE CONTAINER CREATED ACTIVITY REASON", claimRow
}

func failedClaimRow(c client.Claim) []string {
	retry := ""
	if c.RetryAt != nil {
		retry = timestamp(*c.RetryAt)
	}
	return []string{c.ID, c.Workload, c.Tenant, string(c.State), c.Container, strconv.Itoa(c.Failures), string(c.FailureReason), retry, oneLine(c.Reason)}
}

func claimRow(c client.Claim) []string {
	return []string{c.ID, c.Workload, c.Tenant, string(c.State), healthOf(c), string(c.Source), c.Container, timestamp(c.CreatedAt), activityOf(c.Activity, c.ActivityTool), oneLine(c.Reason)}
}

// healthOf returns the health of the container of a claim that has one.
func healthOf(c client.Claim) string {
	if c.ReleasedAt != nil {
		return "" // it says nothing of the claim
	}
	return c.Health
}

func runRow(r client.Run) []string {
	exit := ""
	if r.ExitCode != nil {
		exit = strconv.Itoa(*r.ExitCode)
	}
	return []string{
		r.ID, strconv.Itoa(r.Attempt), occasion(r), r.Hook, string(r.State), exit,
		fmt.Sprintf("%.1f", r.Duration), r.Workload, r.Tenant, timestamp(r.StartedAt),
	}
}

// occasion returns the point of a run, or the type of its event.
func occasion(r client.Run) string {
	if r.Event != "" {
		return r.Event
	}
	return string(r.Point)
}
