package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Check reads every Go file below root and gives a sentence for each breach of
// the policy, in the order of the files.
func Check(root fs.FS) ([]string, error) {
	var violations []string
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, name)
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		found, err := checkFile(root, name)
		violations = append(violations, found...)
		return err
	})
	return violations, err
}

// skipDir skips what the go command skips as well, and modules of their own.
func skipDir(root fs.FS, dir string) error {
	base := path.Base(dir)
	if dir == "." {
		return nil
	}
	if base == "testdata" || base == "vendor" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := fs.Stat(root, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// file is a source file under judgement.
type file struct {
	name string // from the root
	pkg  string // its directory
	test bool
	ast  *ast.File
	fset *token.FileSet
}

func checkFile(root fs.FS, name string) ([]string, error) {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	f := file{name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), fset: token.NewFileSet()}
	f.ast, err = parser.ParseFile(f.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	violations := append(f.checkPackage(), f.checkLength(src)...)
	for _, spec := range f.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		violations = append(violations, f.checkImport(imported)...)
	}
	return append(violations, f.checkGoroutines()...), nil
}

// checkPackage judges the package that the file is in.
func (f file) checkPackage() []string {
	var violations []string
	if name := strings.TrimSuffix(f.ast.Name.Name, "_test"); slices.Contains(badNames, name) {
		violations = append(violations, fmt.Sprintf("%s: a package named %s does not describe its content", f.name, name))
	}
	if _, ok := f.layer(); !ok {
		violations = append(violations, fmt.Sprintf(
			"%s: the package %s has no row in internal/arch/policy.go with what it may import", f.name, f.pkg))
	}
	return violations
}

func (f file) checkLength(src []byte) []string {
	lines := bytes.Count(src, []byte("\n"))
	if lines <= maxLines || longFiles[f.name] != "" || ast.IsGenerated(f.ast) {
		return nil
	}
	return []string{fmt.Sprintf("%s: has %d lines, more than %d: split it by what a reader looks for",
		f.name, lines, maxLines)}
}

// checkImport judges one import. A test may use whatever wires things up, but
// what belongs to one package only belongs to that package's tests as well.
func (f file) checkImport(imported string) []string {
	if ours, ok := cutModule(imported); ok {
		return f.checkInternal(ours)
	}
	var violations []string
	for _, o := range importOwners {
		testing := f.test && o.pkg == "github.com/stretchr/testify"
		if isWithin(imported, o.pkg) && !isListed(f.pkg, o.list) && !testing {
			violations = append(violations, fmt.Sprintf("%s: imports %s, but %s", f.name, imported, o.reason))
		}
	}
	for _, o := range minimalPackages {
		foreign := strings.Contains(strings.Split(imported, "/")[0], ".")
		allowed := slices.ContainsFunc(o.list, func(m string) bool { return isWithin(imported, m) })
		if isListed(f.pkg, []string{o.pkg}) && foreign && !allowed && !f.test {
			violations = append(violations, fmt.Sprintf(
				"%s: imports %s, but %s: %s may use the standard library%s only",
				f.name, imported, o.reason, o.pkg, and(o.list)))
		}
	}
	return violations
}

// checkInternal judges an import of a package of ours. Tests drive a package with
// the real thing where that is cheap, and are not held to its layer.
func (f file) checkInternal(ours string) []string {
	row, ok := f.layer()
	if !ok || f.test || ours == f.pkg || isListed(ours, row.uses) {
		return nil
	}
	return []string{fmt.Sprintf("%s: imports %s, but %s may only import %s", f.name, ours, f.pkg, list(row.uses))}
}

// checkGoroutines finds goroutines that are started where none may be.
func (f file) checkGoroutines() []string {
	allowed := slices.ContainsFunc(goroutineStarters, func(o owner) bool { return isListed(f.pkg, []string{o.pkg}) })
	if f.test || allowed {
		return nil
	}
	var violations []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if stmt, ok := n.(*ast.GoStmt); ok {
			violations = append(violations, fmt.Sprintf("%s:%d: starts a goroutine, but %s may not: block in a Run(ctx) "+
				"or wait with an errgroup", f.name, f.fset.Position(stmt.Go).Line, f.pkg))
		}
		return true
	})
	return violations
}

// layer is the row of the file's package.
func (f file) layer() (layer, bool) {
	for _, row := range layers {
		if isListed(f.pkg, []string{row.pkg}) {
			return row, true
		}
	}
	return layer{}, false
}

// cutModule gives a package of ours as a path from the root.
func cutModule(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// isListed reports whether a package is on the list.
func isListed(pkg string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		above, all := strings.CutSuffix(pattern, "...")
		above = strings.TrimSuffix(above, "/")
		return pkg == pattern || all && (above == "" || isWithin(pkg, above))
	})
}

// isWithin reports whether a package is another or below it.
func isWithin(pkg, above string) bool {
	return pkg == above || strings.HasPrefix(pkg, above+"/")
}

func list(names []string) string {
	if len(names) == 0 {
		return "no package of ours"
	}
	return strings.Join(names, ", ")
}

func and(modules []string) string {
	if len(modules) == 0 {
		return ""
	}
	return " and " + strings.Join(modules, ", ")
}
