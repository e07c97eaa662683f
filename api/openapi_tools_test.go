package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// openapiTool returns a program that `make openapi-tool` builds.
func openapiTool(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob("../bin/tools/" + name + "-*")
	require.NoError(t, err)
	if len(found) == 0 {
		testenv.Skip(t, "openapi", "no %s: make openapi-tool", name)
	}
	return found[len(found)-1]
}

func writeDocument(t *testing.T) string {
	t.Helper()
	_, text := readDocument(t)
	file := filepath.Join(t.TempDir(), "openapi.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// The document is valid by the specification.
func TestDocumentIsValid(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), openapiTool(t, "openapi-validate"), writeDocument(t)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "passes all validations")
}

// A generator makes a client of the document without a warning: with an operation
// for each route, and types with the values of what is enumerated.
func TestDocumentGeneratesClient(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "client.go")
	cmd := exec.CommandContext(t.Context(), openapiTool(t, "oapi-codegen"), "-generate", "types,client", "-package", "client", "-o", file, writeDocument(t))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out), "it warns")
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	names := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names[n.Name.Name] = true
		case *ast.TypeSpec:
			names[n.Name.Name] = true
		}
		return true
	})
	for _, name := range []string{"Claim", "ClaimState", "ProblemCode", "FollowEvents", "ParseEventsResponse", "ContainerHealth"} {
		require.True(t, names[name], "there is no %s", name)
	}
}
