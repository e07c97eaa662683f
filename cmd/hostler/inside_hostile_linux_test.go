package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/inside"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/wait"
	"github.com/hostler/hostler/workload"
)

// noHooks has a workload without hooks.
type noHooks struct{}

func (noHooks) Revision(context.Context, string, string) (*workload.Workload, pool.Record, error) {
	return &workload.Workload{ID: "w"}, pool.Record{}, nil
}

// hostileValues are values of fields, and bodies.
func hostileValues() []string {
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	return []string{
		`null`, `{}`, `[]`, `""`, `0`, `-1`, `1e999`, `9223372036854775808`, `1000000`, `true`, `{"a":1,"a":2}`,
		`"\u0000"`, `"a\u0000b"`, `"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", "\"\u202e\u009b\"", `"` + strings.Repeat("x", 70000) + `"`, deep, `{"a":` + deep + `}`,
		`"../.."`, `"a/b"`, `"a"`, `"%"`, `"_%"`, `"'; DROP"`, `"1ns"`, `"-1s"`, `"300s"`, `"1ms"`, `"9999999999h"`,
		`"claim"`, `"tenant"`, `"workload"`, `"agent.x"`, `"claim.released"`, `"custom.claim.released"`, `"thinking"`,
	}
}

// validBodies are bodies of requests, by their fields.
var validBodies = map[string]map[string]string{
	"claim":         {},
	"memory.put":    {"level": `"claim"`, "key": `"k"`, "value": `1`, "if_version": `0`},
	"memory.get":    {"level": `"claim"`, "key": `"k"`},
	"memory.delete": {"level": `"claim"`, "key": `"k"`, "if_version": `0`},
	"memory.list":   {"level": `"claim"`, "prefix": `""`, "after": `""`, "limit": `5`},
	"event.publish": {"type": `"agent.x"`, "data": `{}`, "priority": `5`},
	"activity":      {"activity": `"thinking"`, "tool": `"t"`, "task": `"t"`},
	"wait":          {"name": `"n"`, "type": `"consensus"`, "timeout": `"1ms"`, "on_timeout": `"abort"`, "context": `{}`},
}

// withField returns a body with another value in one field.
func withField(valid map[string]string, field, value string) string {
	parts := []string{`"` + field + `":` + value}
	for name, v := range valid {
		if name != field {
			parts = append(parts, `"`+name+`":`+v)
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Whatever a program sends, it gets one answer, which is no error of the server:
// nothing panics, and nothing is logged.
func TestHostileBodies(t *testing.T) {
	db := openWithWorkload(t)
	var log strings.Builder
	s := openInside(db)
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	s.memory, s.waits = memory.New(db, s.log), wait.New(db, wait.Options{Claims: db, Workloads: noHooks{}, Log: s.log})
	requests := s.insideRequests(api.New(api.Options{Log: s.log}))
	sent := 0
	var c claim.Claim
	ask := func(name, body string) {
		if sent++; sent%40 == 1 { // each within its limits
			c = activeClaim(t, db, uuid.NewString())
		}
		got := askInside(t, requests, c, runtime.Request{ID: fmt.Sprint("r", sent), Name: name, Body: []byte(body)})
		if got.Problem != nil {
			require.NotEqual(t, runtime.ProblemFailed, got.Problem.Code, "%s %.200s: %s", name, body, got.Problem.Detail)
		}
	}
	for name, valid := range validBodies {
		ask(name, "")
		for _, value := range hostileValues() {
			ask(name, value)
			for field := range valid {
				ask(name, withField(valid, field, value))
			}
		}
	}
	require.Empty(t, log.String())
}

// askInside sends a request of a claim and returns its only response. One that
// waits is interrupted at once.
func askInside(t *testing.T, requests *inside.Service, c claim.Claim, r runtime.Request) runtime.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if r.Name == "wait" {
		cancel()
	}
	r.Fence = c.ContainerFence
	var all []runtime.Response
	requests.Handle(ctx, c.Container, r, func(r runtime.Response) { all = append(all, r) })
	require.Len(t, all, 1, r.Name)
	return all[0]
}
