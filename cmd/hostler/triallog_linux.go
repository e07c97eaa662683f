package main

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// The log of a container is read so often, and so much of its end.
const (
	trialLogInterval = 250 * time.Millisecond
	trialLogTail     = 256 << 10
)

// followLog shows what the main process and hooks print, until ctx ends.
func (t *trial) followLog(ctx context.Context, rt runtime.Runtime, api *client.Client) error {
	again := time.NewTicker(trialLogInterval)
	defer again.Stop()
	for {
		t.mu.Lock()
		id, ended := t.container, t.seen[client.EventContainerDestroyed]
		t.mu.Unlock()
		if id != "" && !ended {
			t.copyLog(ctx, rt, id)
		}
		t.copyHooks(ctx, api)
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// copyLog shows what is new in a container's log. A log that cannot be read is read
// again.
func (t *trial) copyLog(ctx context.Context, rt runtime.Runtime, id string) {
	t.logMu.Lock()
	defer t.logMu.Unlock()
	t.mu.Lock()
	isOurs, isEnding := id == t.container, t.seen[client.EventContainerDestroying]
	t.mu.Unlock()
	if !isOurs {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	log, err := rt.Logs(ctx, id, time.Time{}, trialLogTail)
	if err != nil {
		return
	}
	defer log.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(log, trialLogTail))
	if err != nil {
		return
	}
	if end := bytes.LastIndexByte(text, '\n'); !isEnding && end+1 < len(text) && len(text) < trialLogTail {
		text = text[:end+1] // the rest of the line follows
	}
	added, missing := t.log.advance(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	if missing == lostText {
		t.printLines("main", []byte("… more was printed than is shown"))
	}
	t.printLines("main", added)
}

// failedRow returns the row of the first hook whose failure is the trial's.
func (t *trial) failedRow() trialRow {
	last := map[string]trialRow{}
	for _, r := range t.rows {
		if r.run != nil {
			last[r.run.ID] = r
		}
	}
	for _, r := range t.rows {
		if r.run == nil {
			continue
		}
		end := last[r.run.ID].run
		isOver := end.State != client.RunSucceeded && end.State != client.RunSkipped && end.State != client.RunCancelled
		if isOver && !t.mayFail(*end) {
			return last[r.run.ID]
		}
	}
	return trialRow{}
}

// failedHook returns the exit code of what the hooks did.
func (t *trial) failedHook() int {
	if t.failedRow().run != nil {
		return exitHook
	}
	return exitOK
}

// mayFail reports whether the flow continues after a hook's failure.
func (t *trial) mayFail(r client.Run) bool {
	for _, h := range t.workload.Hooks[hooks.Point(r.Point)] {
		if h.Name == r.Hook {
			return h.OnError == hooks.Continue || h.OnError == hooks.Retry && h.OnExhausted == hooks.Continue
		}
	}
	return false
}
