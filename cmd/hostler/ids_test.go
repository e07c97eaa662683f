package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/wait"
)

// The claim that several tests abbreviate.
const zoesClaim = "01a21ad0-002f-7e53-bde8-e3cae413691b"

// serveEnded serves the test backend with a claim of zoe that has ended.
func serveEnded(t *testing.T) {
	t.Helper()
	b := serveTestBackend(t)
	ended := b.Claims[0].CreatedAt
	b.Claims = append(b.Claims, claim.Claim{
		ID: zoesClaim, Workload: "web", Tenant: "zoe", Container: "box-1", State: claim.Released, CreatedAt: ended, ReleasedAt: &ended,
	})
}

// An id may be written as its beginning or its end, in arguments and flags, also that
// of what has ended.
func TestPartsOfIDs(t *testing.T) {
	serveEnded(t)
	for args, want := range map[string]string{
		"get claims e413691b -o name":         zoesClaim,
		"get claims 01a21ad0-002f -o name":    zoesClaim,
		"get claim " + zoesClaim + " -o name": zoesClaim,
		"get containers ox-1 -o name":         "box-1",
		"describe claim 691b":                 zoesClaim,
		"events -n 9 --container ox-1":        "claim.activated",
		"get runs un-1 -o name":               "run-1",
		"logs run-":                           "half done",
		"retry delivery ivery-1":              "delivery-1",
		"files list alice:/work":              "a.txt",
		"cp alice:/work/a.txt -":              "hello",
	} {
		code, out, errOut := hostler(t, "", strings.Fields(args)...)
		require.Equal(t, exitOK, code, "%s: %s", args, errOut)
		require.Contains(t, out, want, args)
	}
	for args, want := range map[string]string{
		"get claims 91b":      "no such claim", // shorter than a part
		"get claims zzzz":     "no such claim",
		"get containers box-": "several containers begin or end with box-: box-2, box-1",
	} {
		code, _, errOut := hostler(t, "", strings.Fields(args)...)
		require.NotEqual(t, exitOK, code, args)
		require.Contains(t, errOut, want, args)
	}
}

// The id of a snapshot may be written so, too, among those of the owner that the
// flags name.
func TestPartsOfSnapshotIDs(t *testing.T) {
	b := serveTestBackend(t)
	kept := []snapshot.Snapshot{{ID: "0199c2a4-1111-7c5e-9f3a-2b1c4d5e6f70"}, {ID: "0199c2a4-2222-7c5e-9f3a-2b1c4d5e6f71"}}
	for _, part := range []string{"0199c2a4-2222", "5e6f71", kept[1].ID} {
		b.Snapshots = slices.Clone(kept)
		code, out, errOut := tenantSnapshots(t, "", "restore "+part)
		require.Equal(t, exitOK, code, errOut)
		require.Contains(t, out, "restored from 0199c2a4-2222-7c5e-9f3a-2b1c4d5e6f71\n", part)
	}
	b.Snapshots = kept
	code, _, errOut := tenantSnapshots(t, "", "verify 0199c2a4")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, "several snapshots begin or end with 0199c2a4: ")
	code, _, errOut = tenantSnapshots(t, "", "restore 6f7f")
	require.Equal(t, exitNotFound, code, errOut)
}

// A whole id costs no request, and a part of one costs one.
func TestWholeIDsCostNoRequest(t *testing.T) {
	serveEnded(t)
	var paths []string
	target := os.Getenv("HOSTLER_SERVER")
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path+"?"+r.URL.Query().Get("id"))
		http.Redirect(w, r, target+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("HOSTLER_SERVER", proxy.URL)
	hostler(t, "", "get", "claims", zoesClaim)
	require.Equal(t, []string{"/v1/claims/" + zoesClaim + "?"}, paths)
	paths = nil
	hostler(t, "", "get", "claims", "691b")
	require.Equal(t, "/v1/claims?691b", paths[0])
}

// A list of a part asks for every state that there is: an id that is known is found
// whatever became of it.
func TestEveryStateIsListed(t *testing.T) {
	require.ElementsMatch(t, typedAs[claim.State](claimStates), claim.States())
	require.ElementsMatch(t, typedAs[pool.State](containerStates), pool.States())
	require.ElementsMatch(t, typedAs[hooks.RunState](runStates), hooks.RunStates())
	require.ElementsMatch(t, typedAs[delivery.State](deliveryStates), delivery.States())
	require.ElementsMatch(t, typedAs[wait.State](waitStates), wait.States())
}

// Every argument that is an id can be abbreviated.
func TestArgumentsOf(t *testing.T) {
	for use, want := range map[string][]argument{
		"release [CLAIM]":                   {{"CLAIM", true}},
		"exec CLAIM [-it] -- COMMAND":       {{"CLAIM", false}},
		"logs RUN | --container CONTAINER":  {{"RUN", false}},
		"cp SOURCE DESTINATION":             {{"SOURCE", false}, {"DESTINATION", false}},
		"apply [FILE...] [-f FILE]":         {{"FILE", true}},
		"claim WORKLOAD [--tenant TENANT]":  {{"WORKLOAD", false}},
		"snapshots --workload W --tenant T": nil,
	} {
		cmd := newRoot()
		cmd.Use = use
		require.Equal(t, want, argumentsOf(cmd), use)
	}
	// The commands whose first argument is the id of a claim.
	var found []string
	for _, cmd := range newRoot().Commands() {
		if a := argumentsOf(cmd); len(a) > 0 && a[0].name == "CLAIM" {
			found = append(found, cmd.Name())
		}
	}
	for _, name := range []string{"release", "extend", "touch", "exec", "kill", "sync", "wait", "signal", "activity", "port-forward"} {
		require.True(t, slices.Contains(found, name), name)
	}
}

// Releasing by name twice is no error, and shows the claim again. A tenant that never
// had one is an error. Touching what has ended is an error.
func TestReleasedByName(t *testing.T) {
	serveEnded(t)
	code, out, errOut := hostler(t, "", "release", "--workload", "web", "--tenant", "zoe")
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "claim "+zoesClaim+" released\n", out)
	code, _, errOut = hostler(t, "", "sync", "--workload", "web", "--tenant", "zoe")
	require.Equal(t, exitNotFound, code)
	require.Contains(t, errOut, "zoe holds no claim")
	code, _, errOut = hostler(t, "", "touch", zoesClaim)
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "is released")
}

// Lists of parts of ids are refused when the part is too short or too long, and so is
// an unknown order.
func TestSelectionIsChecked(t *testing.T) {
	b := serveTestBackend(t)
	h := api.New(b.Options())
	for query, want := range map[string]int{
		"id=abcd": 200, "id=abc": 422, "id=" + strings.Repeat("a", 37): 422, "order=desc": 200, "order=up": 422, "order=asc": 200,
	} {
		for _, list := range []string{"claims", "containers", "hook-runs", "deliveries", "waits"} {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/v1/"+list+"?"+query, nil))
			require.Equal(t, want, rec.Code, "%s?%s %s", list, query, rec.Body)
		}
	}
	for query, want := range map[string]int{"last=2": 200, "last=1001": 422, "last=0": 422, "last=1&after=0": 422, "last=1&since=1h": 422, "last=1&follow=true": 422} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/v1/events?"+query, nil))
		require.Equal(t, want, rec.Code, "%s %s", query, rec.Body)
	}
}
