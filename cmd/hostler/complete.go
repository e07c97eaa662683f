package main

import (
	"context"

	"github.com/hostler/hostler/client"
)

// maxCompletions is the maximum number of ids that a completion returns.
const maxCompletions = 200

func idsOf[T any](items []T, id func(T) string) []string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = id(item)
	}
	return out
}

func workloadIDs(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := c.Workloads(ctx)
	return idsOf(items, func(w client.Workload) string { return w.ID }), err
}

func containerIDs(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := c.Containers(ctx, client.ContainerFilter{Limit: maxCompletions})
	return idsOf(items, func(b client.Container) string { return b.ID }), err
}

func claimIDs(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := c.Claims(ctx, client.ClaimFilter{Limit: maxCompletions})
	return idsOf(items, func(c client.Claim) string { return c.ID }), err
}

func runIDs(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := c.Runs(ctx, client.RunFilter{Limit: maxCompletions, NoOutput: true})
	return idsOf(items, func(r client.Run) string { return r.ID }), err
}
