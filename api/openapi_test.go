package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
)

// The document lists exactly the routes of the mux, each with a summary.
func TestDocumentListsRoutes(t *testing.T) {
	a := New(Options{Metrics: New(Options{})})
	var doc struct {
		Paths map[string]map[string]struct {
			Summary   string
			Responses map[string]json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(a.document(), &doc))
	var listed []string
	for path, ops := range doc.Paths {
		for method, o := range ops {
			listed = append(listed, strings.ToUpper(method)+" "+path)
			require.NotEmpty(t, o.Summary, path)
			require.Contains(t, o.Responses, "default", path)
		}
	}
	sort.Strings(listed)
	served := slices.Sorted(slices.Values(a.patterns))
	require.Equal(t, served, listed)
	require.False(t, bytes.Contains(a.document(), []byte("ErrorModel")))
}

// Every code has a status, and every status is an error's.
func TestEveryCodeHasStatus(t *testing.T) {
	for _, row := range errorCodes {
		require.Contains(t, statuses, row.code)
	}
	for _, code := range codeByStatus {
		require.Contains(t, statuses, code)
	}
	for code, row := range statuses {
		require.GreaterOrEqual(t, row.status, 400, code)
		require.NotEmpty(t, row.title, code)
	}
}

// The document names every state that a list can be filtered by.
func TestDocumentHasEveryState(t *testing.T) {
	var claims, containers []string
	for _, s := range claim.States() {
		claims = append(claims, string(s))
	}
	for _, s := range pool.States() {
		containers = append(containers, string(s))
	}
	for _, c := range []struct {
		in     any
		states []string
	}{{listClaimsIn{}, claims}, {listContainersIn{}, containers}} {
		field, ok := reflect.TypeOf(c.in).FieldByName("State")
		require.True(t, ok)
		list, _, _ := strings.Cut(field.Tag.Get("doc"), ";")
		require.ElementsMatch(t, c.states, strings.Split(strings.Replace(list, " or ", ", ", 1), ", "))
	}
}
