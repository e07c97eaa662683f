package main

import (
	"context"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/client"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
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
	return idsOf(items, func(w api.Workload) string { return w.ID }), err
}

func containerIDs(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := c.Containers(ctx, pool.ContainerFilter{Limit: maxCompletions})
	return idsOf(items, func(b pool.Container) string { return b.ID }), err
}

func claimIDs(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := c.Claims(ctx, claim.Filter{Limit: maxCompletions})
	return idsOf(items, func(c claim.Claim) string { return c.ID }), err
}

func runIDs(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := c.Runs(ctx, hooks.RunFilter{Limit: maxCompletions, NoOutput: true})
	return idsOf(items, func(r hooks.Run) string { return r.ID }), err
}
