package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
)

// unreachedSteps are not in steps, because the workload of that test does not
// have them.
var unreachedSteps = map[string]string{
	"create/seed":    "a workload with sync is seeded by its claims",
	"destroy/output": "the output of its containers can be read when they fail",
}

var hookPoints = map[string]string{
	"hooks.PreStart": string(hooks.PreStart), "hooks.PostStart": string(hooks.PostStart),
	"hooks.PostCreate": string(hooks.PostCreate), "hooks.PostClaim": string(hooks.PostClaim),
	"hooks.PreRelease": string(hooks.PreRelease), "hooks.PreDestroy": string(hooks.PreDestroy),
}

// No flow has a step at which no server is killed.
func TestStepsAreComplete(t *testing.T) {
	t.Parallel()
	var listed []string
	for flow, names := range steps {
		for _, name := range names {
			listed = append(listed, flow+"/"+name)
		}
	}
	for _, name := range deliverySteps {
		listed = append(listed, "delivery/"+name)
	}
	for _, name := range waitSteps {
		listed = append(listed, "wait/"+name)
	}
	for step := range unreachedSteps {
		listed = append(listed, step)
	}
	var found []string
	for _, dir := range []string{"pool", "claim", "release", "snapshot", "delivery", "wait"} {
		files, err := filepath.Glob("../" + dir + "/*.go")
		require.NoError(t, err)
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				found = append(found, stepsIn(t, file)...)
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found) // a claim has its step healthy at two places
	require.ElementsMatch(t, found, listed, "the steps in the sources, and those in the table")
}

// stepsIn returns FLOW/STEP for every step that a file names. A step is of the
// flow that the file names last before it.
func stepsIn(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var flow string
	var found []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			switch selected(n.Fun) {
			case "flow.New":
				flow = name(n.Args[2])
			case "flow.Run":
				flow = name(n.Args[1])
			case "flow.Failpoint":
				if name(n.Args[2]) == "before" {
					found = append(found, name(n.Args[0])+"/"+name(n.Args[1]))
				}
			}
		case *ast.CompositeLit:
			if selected(n.Type) == "flow.Step" {
				require.Equal(t, "Name", n.Elts[0].(*ast.KeyValueExpr).Key.(*ast.Ident).Name)
				found = append(found, flow+"/"+name(n.Elts[0].(*ast.KeyValueExpr).Value))
			}
		}
		return true
	})
	return found
}

// selected returns "a.b" for that selector, and "" for anything else.
func selected(n ast.Expr) string {
	if s, ok := n.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// name returns the value of a string literal or of string(hooks.PostCreate).
func name(n ast.Expr) string {
	switch n := n.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(n.Value)
		if err == nil {
			return s
		}
	case *ast.CallExpr:
		return hookPoints[selected(n.Args[0])]
	}
	return ""
}
