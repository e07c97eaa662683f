package generate

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
)

const file = "../src/types.ts"

var update = flag.Bool("update", false, "rewrite "+file)

// The types of the client are those of the server's document.
func TestTypesAreOfTheDocument(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", http.NoBody)
	w := httptest.NewRecorder()
	api.New(api.Options{Metrics: http.NotFoundHandler()}).ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	got, err := Types(w.Body.Bytes())
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./clients/typescript/generate -update")
}

// Each kind of schema has a type. What the server sends may get other values; what
// clients send may not.
func TestTypes(t *testing.T) {
	got, err := Types([]byte(`{
	  "components": {"schemas": {
	    "Sent": {"additionalProperties": false, "required": ["a"], "properties": {
	      "a": {"type": "string", "enum": ["x", "y"]},
	      "b": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}},
	    "Problem": {"type": "object", "x-temporary-codes": ["x", "y"]},
	    "Got": {"description": "It ends */ here.", "properties": {
	      "a-b": {"type": "string", "enum": ["x"]},
	      "c": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/Sent"}},
	      "d": {"type": "object", "additionalProperties": {"type": "number"}},
	      "e": {"type": "object"},
	      "f": {},
	      "g": {"properties": {"h": {"type": "boolean"}}}}}}},
	  "paths": {"/x/{id}": {
	    "get": {"summary": "Read", "responses": {
	      "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Got"}}}},
	      "201": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Got"}}}},
	      "default": {"content": {"application/json": {"schema": {"type": "string"}}}}}},
	    "put": {
	      "parameters": [
	        {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
	        {"name": "limit", "in": "query", "schema": {"type": "integer"}}],
	      "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Sent"}}}},
	      "responses": {"204": {}}},
	    "post": {
	      "requestBody": {"required": true, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
	      "responses": {"200": {"content": {"*/*": {}}}}}}}}`))
	require.NoError(t, err)
	require.Equal(t, header+`/** It ends *\/ here. */
export interface Got {
  "a-b"?: "x" | (string & {});
  c?: Array<Sent> | null;
  d?: Record<string, number>;
  e?: Record<string, unknown>;
  f?: unknown;
  g?: {
  h?: boolean;
};
}

export type Problem = Record<string, unknown>;

export interface Sent {
  a: "x" | "y";
  b?: string | number;
}

/** The codes of errors that end by themselves. All other codes are final. */
export const TEMPORARY_CODES: readonly string[] = ["x", "y"];

/** What requests have and are answered with, by method and path. */
export interface Operations {
  /** Read */
  "GET /x/{id}": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: Got;
  };
  "POST /x/{id}": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: unknown;
    answer: unknown;
  };
  "PUT /x/{id}": {
    path: { id: string };
    query: { limit?: number };
    body: Sent | undefined;
    answer: undefined;
  };
}
`, got)
	_, err = Types([]byte("no JSON"))
	require.ErrorContains(t, err, "read the OpenAPI document")
}
