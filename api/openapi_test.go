package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	require.NoError(t, json.Unmarshal(a.document, &doc))
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
	require.False(t, bytes.Contains(a.document, []byte("ErrorModel")))
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
