package api

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
)

// documented is the document as its readers see it.
type documented struct {
	Info struct {
		Title, Version, Description string
		License, Contact            map[string]string
	}
	Servers []map[string]string
	Tags    []struct{ Name, Description string }
	Paths   map[string]map[string]struct {
		OperationID          string `json:"operationId"`
		Summary, Description string
		Tags                 []string
		Parameters           []struct {
			Name, In, Description string
			Required              bool
			Schema                map[string]any
		}
		RequestBody any
		Responses   map[string]struct {
			Description string
			Headers     map[string]any
			Content     map[string]struct{ Schema map[string]any }
		}
	}
	Components struct {
		Schemas map[string]struct {
			Properties           map[string]map[string]any
			AdditionalProperties any
		}
		Headers map[string]any
	}
}

func readDocument(t *testing.T) (doc documented, text string) {
	t.Helper()
	text = string(New(Options{Metrics: New(Options{})}).document())
	require.NoError(t, json.Unmarshal([]byte(text), &doc))
	return doc, text
}

// The document as a whole has what linters of OpenAPI recommend.
func TestDocumentInfo(t *testing.T) {
	doc, text := readDocument(t)
	require.NotEmpty(t, doc.Info.Title)
	require.NotEmpty(t, doc.Info.Description)
	require.NotEmpty(t, doc.Info.License["name"])
	require.NotEmpty(t, doc.Info.License["url"])
	require.NotEmpty(t, doc.Info.Contact["url"])
	require.NotEmpty(t, doc.Servers)
	require.NotEmpty(t, doc.Tags)
	for _, tag := range doc.Tags {
		require.NotEmpty(t, tag.Description, tag.Name)
		require.Contains(t, text, fmt.Sprintf("%q]", tag.Name), "the tag is used")
	}
	for name := range doc.Components.Schemas {
		require.Contains(t, text, `"#/components/schemas/`+name+`"`, "nothing refers to it")
	}
	for name := range doc.Components.Headers {
		require.Contains(t, text, `"#/components/headers/`+name+`"`, "nothing refers to it")
	}
}

// Each operation can be understood, called and generated, with its errors.
func TestDocumentOperations(t *testing.T) {
	doc, _ := readDocument(t)
	var tags []string
	for _, tag := range doc.Tags {
		tags = append(tags, tag.Name)
	}
	ids := map[string]bool{}
	isID := regexp.MustCompile(`^[a-z][a-z-]*[a-z]$`)
	for path, operations := range doc.Paths {
		for method, o := range operations {
			name := method + " " + path
			require.Regexp(t, isID, o.OperationID, name)
			require.False(t, ids[o.OperationID], "%s: its id is not unique", name)
			ids[o.OperationID] = true
			require.NotEmpty(t, o.Summary, name)
			require.NotEqual(t, o.Summary, o.Description, name)
			require.NotEmpty(t, o.Description, "%s: it has no description", name)
			require.Len(t, o.Tags, 1, name)
			require.Contains(t, tags, o.Tags[0], name)
			for _, p := range o.Parameters {
				require.NotEmpty(t, p.Description, "%s: the parameter %s has no description", name, p.Name)
				require.NotEmpty(t, p.Schema, "%s: %s", name, p.Name)
				require.False(t, p.In == "header" && slices.Contains(negotiated, p.Name), "%s: %s", name, p.Name)
				require.Equal(t, p.In == "path", strings.Contains(path, "{"+p.Name+"}"), "%s: %s", name, p.Name)
			}
			require.Equal(t, strings.Count(path, "{"), countPathParameters(doc, path, method), name)
			require.True(t, o.RequestBody == nil || method != "get" && method != "delete" && method != "head", name)
			success, failure := false, false
			for status, r := range o.Responses {
				code, err := strconv.Atoi(status)
				success = success || err == nil && code < 400
				failure = failure || err == nil && code >= 400
				require.NotEmpty(t, r.Description, "%s: %s", name, status)
				require.Contains(t, r.Headers, "X-Request-Id", "%s: %s", name, status)
				if err == nil && code < 400 {
					continue
				}
				require.Contains(t, r.Content, problemType, "%s: %s", name, status)
				require.Equal(t, slices.Contains(retryStatuses, status), r.Headers["Retry-After"] != nil, "%s: %s", name, status)
			}
			require.True(t, success, "%s: it has no response of success", name)
			require.True(t, failure, "%s: it has no response of an error", name)
		}
	}
	for id := range operationCodes {
		require.True(t, ids[id], "%s is no operation", id)
	}
}

func countPathParameters(doc documented, path, method string) int {
	n := 0
	for _, p := range doc.Paths[path][method].Parameters {
		if p.In == "path" && p.Required {
			n++
		}
	}
	return n
}

// A response can get a new property, and a property with some values lists them.
func TestDocumentSchemas(t *testing.T) {
	doc, text := readDocument(t)
	tree := &schemaTree{}
	require.NoError(t, json.Unmarshal([]byte(text), &tree.root))
	tree.schemas = tree.root["components"].(map[string]any)["schemas"].(map[string]any)
	requests := map[string]bool{}
	for _, operations := range doc.Paths {
		for _, o := range operations {
			tree.collect(o.RequestBody, requests)
		}
	}
	require.Contains(t, requests, "ClaimRequest")
	require.NotContains(t, requests, "Claim")
	for name, s := range doc.Components.Schemas {
		if requests[name] {
			require.Equal(t, false, s.AdditionalProperties, name)
			continue
		}
		require.Nil(t, s.AdditionalProperties, name)
	}
	for where, values := range enums() {
		schema, property, _ := strings.Cut(where, ".")
		require.Contains(t, doc.Components.Schemas, schema)
		p := doc.Components.Schemas[schema].Properties[property]
		require.Equal(t, "string", p["type"], where)
		require.Len(t, p["enum"], len(values), where)
		require.NotEmpty(t, values, where)
		require.ElementsMatch(t, values, slices.Compact(slices.Sorted(slices.Values(values))), where)
	}
	for _, s := range []string{"Event", "FollowedEvent"} {
		require.NotEmpty(t, doc.Components.Schemas[s].Properties["type"]["anyOf"])
	}
	require.Contains(t, doc.Components.Schemas, "ClaimActivatedData")
}

// One rule for tenants' names holds in the document and in the program.
func TestDocumentHasRuleForTenants(t *testing.T) {
	doc, _ := readDocument(t)
	for _, s := range []string{"ClaimRequest", "RestoreRequest"} {
		tenant := doc.Components.Schemas[s].Properties["tenant"]
		require.Equal(t, claim.TenantPattern, tenant["pattern"], s)
		require.InDelta(t, claim.MaxTenant, tenant["maxLength"], 0, s)
	}
	rule := regexp.MustCompile(claim.TenantPattern)
	require.True(t, rule.MatchString(strings.Repeat("a", claim.MaxTenant)))
	require.False(t, rule.MatchString(strings.Repeat("a", claim.MaxTenant+1)))
}
