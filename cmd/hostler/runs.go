package main

import (
	"context"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/store"
)

// storedRuns is the store as the API reads hook runs. The API names its filter
// itself, for it does not know the store.
type storedRuns struct{ *store.DB }

func (s storedRuns) Runs(ctx context.Context, f api.RunFilter) ([]hooks.Run, error) {
	return s.DB.Runs(ctx, store.RunFilter(f))
}
