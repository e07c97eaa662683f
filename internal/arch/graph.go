package arch

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// graph holds what each package of ours imports, without its tests: packages of
// ours as paths from the root, those of others as import paths.
type graph map[string]map[string]bool

// CheckGraph reads every Go file below root but the tests, and returns a
// sentence for each package that reaches, through any number of others, what it
// must not, and for each permission of the policy that no import needs.
func CheckGraph(root fs.FS) ([]string, error) {
	g, err := readGraph(root)
	if err != nil {
		return nil, err
	}
	return append(g.checkReach(), g.checkUnused()...), nil
}

func readGraph(root fs.FS) (graph, error) {
	g := graph{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, name)
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		pkg := path.Dir(name)
		if g[pkg] == nil {
			g[pkg] = map[string]bool{}
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("parse %s: %w", name, err)
			}
			if ours, ok := cutModule(imported); ok {
				imported = ours
			}
			g[pkg][imported] = true
		}
		return nil
	})
	return g, err
}

// checkReach reports the packages that reach a module which is reserved to
// others, with the way to it.
func (g graph) checkReach() []string {
	var violations []string
	for _, rule := range reserved {
		for _, pkg := range slices.Sorted(maps.Keys(g)) {
			if isListed(pkg, rule.list) {
				continue
			}
			if way := g.find(pkg, rule.pkg, map[string]bool{}); way != nil {
				violations = append(violations, fmt.Sprintf("%s: reaches %s by %s, but %s",
					pkg, rule.pkg, strings.Join(way, " -> "), rule.reason))
			}
		}
	}
	return violations
}

// find returns the packages on a way from pkg to a module; nil when there is
// none.
func (g graph) find(pkg, target string, seen map[string]bool) []string {
	seen[pkg] = true
	for _, imported := range slices.Sorted(maps.Keys(g[pkg])) {
		if isWithin(imported, target) {
			return []string{imported}
		}
		if g[imported] == nil || seen[imported] {
			continue
		}
		if way := g.find(imported, target, seen); way != nil {
			return append([]string{imported}, way...)
		}
	}
	return nil
}

// checkUnused reports the permissions that nothing needs. What tests may import
// is not told apart by package, so a row of a package without other files is
// left alone.
func (g graph) checkUnused() []string {
	var violations []string
	for _, row := range layers {
		if strings.HasSuffix(row.pkg, "...") {
			continue
		}
		if g[row.pkg] == nil {
			violations = append(violations, fmt.Sprintf("internal/arch/policy.go: there is no package %s", row.pkg))
			continue
		}
		for _, permitted := range row.uses {
			if !g.uses(row.pkg, permitted) {
				violations = append(violations, fmt.Sprintf("internal/arch/policy.go: %s may import %s and does not", row.pkg, permitted))
			}
		}
	}
	return violations
}

// uses reports whether a package imports one that matches.
func (g graph) uses(pkg, pattern string) bool {
	for imported := range g[pkg] {
		if isListed(imported, []string{pattern}) {
			return true
		}
	}
	return false
}
