package arch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// CheckLinked asks the go command what the programs below dir are linked with, and
// returns a sentence for each package that they must not have. Unlike [CheckGraph]
// it knows what the packages of others import, and which files a platform has.
func CheckLinked(ctx context.Context, dir string) ([]string, error) {
	var violations []string
	for _, rule := range unreached {
		g, err := readLinked(ctx, dir, rule.pkg)
		if err != nil {
			return nil, err
		}
		for _, target := range rule.list {
			if way := g.find(rule.pkg, target, map[string]bool{}); way != nil {
				violations = append(violations, fmt.Sprintf("%s: reaches %s by %s, but %s",
					rule.pkg, target, strings.Join(way, " -> "), rule.reason))
			}
		}
	}
	return violations, nil
}

// readLinked returns all packages that a program is linked with, and their imports.
// Programs are built for Linux, without C.
func readLinked(ctx context.Context, dir, pkg string) (graph, error) {
	c := exec.CommandContext(ctx, "go", "list", "-deps", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./"+pkg)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	var problem strings.Builder
	c.Stderr = &problem
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("list what %s is linked with: %w: %s", pkg, err, problem.String())
	}
	g := graph{}
	for line := range strings.Lines(string(out)) {
		names := strings.Fields(line)
		for i, name := range names {
			if ours, ok := cutModule(name); ok {
				names[i] = ours
			}
		}
		g[names[0]] = map[string]bool{}
		for _, imported := range names[1:] {
			g[names[0]][imported] = true
		}
	}
	return g, nil
}
