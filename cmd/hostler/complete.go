package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/hooks"
)

// maxCompletions is the maximum number of ids that a completion returns, the newest.
const maxCompletions = 200

// completion is a word with a description, which a shell shows.
type completion = cobra.Completion

// completionsOf returns ids with descriptions. Descriptions are of tenants.
func completionsOf[T any](items []T, describe func(T) (id, text string)) []completion {
	out := make([]completion, len(items))
	for i, item := range items {
		id, text := describe(item)
		out[i] = cobra.CompletionWithDesc(id, oneLine(text))
	}
	return out
}

func idsOf[T any](items []T, id func(T) string) []string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = id(item)
	}
	return out
}

func workloadIDs(ctx context.Context, c *client.Client) ([]completion, error) {
	items, err := c.Workloads(ctx)
	return completionsOf(items, func(w client.Workload) (string, string) { return w.ID, w.Image }), err
}

func containerIDs(ctx context.Context, c *client.Client) ([]completion, error) {
	items, err := c.Containers(ctx, client.ContainerFilter{Limit: maxCompletions, Newest: true})
	return completionsOf(items, func(b client.Container) (string, string) {
		return b.ID, b.Workload + " " + string(b.State) + " " + b.Tenant
	}), err
}

func claimIDs(ctx context.Context, c *client.Client) ([]completion, error) {
	items, err := c.Claims(ctx, client.ClaimFilter{Limit: maxCompletions, Newest: true})
	return completionsOf(items, func(c client.Claim) (string, string) {
		return c.ID, c.Workload + " " + c.Tenant + " " + string(c.State)
	}), err
}

func runIDs(ctx context.Context, c *client.Client) ([]completion, error) {
	items, err := c.Runs(ctx, client.RunFilter{Limit: maxCompletions, Newest: true, NoOutput: true})
	return completionsOf(items, func(r client.Run) (string, string) {
		return r.ID, occasion(r) + " " + r.Hook + " " + string(r.State) + " " + timestamp(r.StartedAt)
	}), err
}

// completeFilters completes the flags that filter by what the server knows.
func (r *remote) completeFilters(cmd *cobra.Command) {
	for name, ids := range map[string]func(context.Context, *client.Client) ([]completion, error){
		"workload": workloadIDs, "container": containerIDs, "claim": claimIDs, "run": runIDs,
	} {
		if cmd.Flags().Lookup(name) != nil {
			must(cmd.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, text string) ([]completion, cobra.ShellCompDirective) {
				return r.complete(ids)(cmd, nil, text)
			}))
		}
	}
	if cmd.Flags().Lookup("point") != nil {
		var points []string
		for _, rule := range hooks.Points() {
			points = append(points, string(rule.Point))
		}
		completeWords(cmd, "point", points...)
	}
}

// completeWords completes a flag with words.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
}
