package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// startTransferProgress is startSpinner for a request in which hooks run and the
// tenant's state may be moved: it also shows which hook runs and how much was moved,
// from the events that the filter matches. Without a terminal it requests none.
func startTransferProgress(ctx context.Context, cmd *cobra.Command, c *client.Client, text string, filter client.EventFilter) (stop func()) {
	w := cmd.ErrOrStderr()
	if !hasColors(w) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var moved atomic.Pointer[string]
	filter.Types = []client.EventType{client.EventSyncStarted, client.EventSyncProgressed, client.EventHookStarted}
	var ended sync.WaitGroup
	// It ends with its context. What it returns does not matter: the request has
	// its own answer.
	ended.Go(func() {
		_ = c.Follow(ctx, client.EventQuery{EventFilter: filter, Since: "0s"}, func(e client.FollowedEvent) error {
			if step := stepText(text, e.Event); step != "" {
				moved.Store(&step)
			}
			return nil
		})
	})
	clear := startProgress(w, func() string {
		if s := moved.Load(); s != nil {
			return *s
		}
		return text
	})
	return func() {
		cancel()
		clear()
		ended.Wait()
	}
}

// stepText describes the step that an event begins, or returns "".
func stepText(text string, e client.Event) string {
	if e.Type == client.EventHookStarted {
		return oneLine(e.Message) // it has the point and the name of the hook
	}
	if moved := transferText(e); moved != "" {
		return text + ", " + moved
	}
	return ""
}

// transferText describes an event of a transfer in progress, or returns "".
func transferText(e client.Event) string {
	var data struct {
		Direction        string `json:"direction"`
		TransferredBytes int64  `json:"transferred_bytes"`
	}
	if json.Unmarshal(e.Data, &data) != nil || data.TransferredBytes < 0 {
		return ""
	}
	switch data.Direction {
	case "upload", "download":
		return fmt.Sprintf("%s of its state: %s", data.Direction, units.BytesSize(float64(data.TransferredBytes)))
	}
	return ""
}
