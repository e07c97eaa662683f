package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// FindBounds finds, for each file, the bounds on elapsed time in tests that run
// on the real clock: their results depend on how busy the machine is. What runs
// only in bubbles of testing/synctest and in benchmarks is left out, and so is
// internal/testenv, whose waits have the deadline of the test binary only. A
// lower bound is allowed: a busy machine does not break it.
func FindBounds(root fs.FS) (map[string][]string, error) {
	b := bounds{packages: map[string]*testPackage{}, found: map[string][]string{}}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		dir := path.Dir(name)
		test := strings.HasSuffix(name, "_test.go") || strings.HasSuffix(dir, "test") && path.Ext(name) == ".go"
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skipDir(root, name)
		case !test || dir == "internal/testenv":
			return nil
		case b.packages[dir] == nil:
			b.packages[dir] = &testPackage{map[string][]*testFunction{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
		}
		return b.packages[dir].read(root, name)
	})
	for dir, p := range b.packages {
		for name := range p.functions {
			if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") {
				b.visit(dir, name)
			}
		}
	}
	return b.found, err
}

// testPackage is the code for tests in a directory.
type testPackage struct {
	functions map[string][]*testFunction // by their names; methods and variables too
	reached   map[string]bool            // names
	imports   map[string]bool            // packages of ours
	bubbles   map[string]bool            // functions that call their argument in a bubble
}

// testFunction is a declaration.
type testFunction struct {
	file    string
	names   []string // of a method, also its type's
	method  bool
	decl    ast.Decl
	fset    *token.FileSet
	visited bool
}

// read adds the declarations of a file.
func (p *testPackage) read(root fs.FS, name string) error {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	for _, spec := range parsed.Imports {
		if ours, ok := cutModule(strings.Trim(spec.Path.Value, `"`)); ok {
			p.imports[ours] = true
		}
	}
	for _, decl := range parsed.Decls {
		f := newTestFunction(decl, name, fset)
		for _, declared := range f.names {
			p.functions[declared] = append(p.functions[declared], f)
		}
		if f, ok := decl.(*ast.FuncDecl); ok && takesFunction(f) && contains(f, isBubble) {
			p.bubbles[f.Name.Name] = true
		}
	}
	return nil
}

func newTestFunction(decl ast.Decl, file string, fset *token.FileSet) *testFunction {
	f := &testFunction{file: file, decl: decl, fset: fset}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		f.names = append(f.names, decl.Name.Name)
		if f.method = decl.Recv != nil; f.method {
			f.names = append(f.names, strings.Trim(types.ExprString(decl.Recv.List[0].Type), "*"))
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if values, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range values.Names {
					f.names = append(f.names, name.Name)
				}
			}
		}
	}
	return f
}

func takesFunction(f *ast.FuncDecl) bool {
	return slices.ContainsFunc(f.Type.Params.List, func(param *ast.Field) bool {
		_, ok := param.Type.(*ast.FuncType)
		return ok
	})
}

// bounds collects what tests run outside of bubbles.
type bounds struct {
	packages map[string]*testPackage
	found    map[string][]string
}

// visit follows a name to what it may be in its directory.
func (b bounds) visit(dir, name string) {
	if b.packages[dir] == nil {
		return
	}
	p := b.packages[dir]
	p.reached[name] = true
	for _, f := range p.functions[name] {
		if !f.visited && (!f.method || p.reached[f.names[0]] && p.reached[f.names[1]]) {
			f.visited = true
			ast.Inspect(f.decl, walker{b, dir, f, map[string]bool{}}.inspect)
		}
	}
}

// walker walks through a declaration.
type walker struct {
	bounds
	dir     string
	f       *testFunction
	elapsed map[string]bool // variables that hold an elapsed time
}

// inspect reports whether to inspect what is below n too.
func (w walker) inspect(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Ident:
		w.visit(w.dir, n.Name)
		for imported := range w.packages[w.dir].imports {
			if n.IsExported() {
				w.visit(imported, n.Name)
			}
		}
	case *ast.KeyValueExpr: // a row of a table that the bubbles of the test run
		_, isFunction := n.Value.(*ast.FuncLit)
		return !isFunction || !contains(w.f.decl, isBubble)
	case *ast.AssignStmt:
		for i, right := range n.Rhs {
			if left, ok := n.Lhs[i].(*ast.Ident); ok && contains(right, w.isElapsed) {
				w.elapsed[left.Name] = true
			}
		}
	case *ast.BinaryExpr:
		isComparison := slices.Contains([]token.Token{token.LSS, token.LEQ, token.GTR, token.GEQ}, n.Op)
		if isComparison && (contains(n.X, w.isElapsed) || contains(n.Y, w.isElapsed)) {
			w.add(n, "comparison of an elapsed time")
		}
	case *ast.CallExpr:
		receiver, function := calledName(n)
		if isBubble(n) || w.packages[w.dir].bubbles[function] {
			return false
		}
		if w.isBound(n, receiver, function) {
			w.add(n, function)
		}
	}
	return true
}

func (w walker) add(n ast.Node, what string) {
	w.found[w.f.file] = append(w.found[w.f.file], fmt.Sprintf("%s:%d: %s", w.f.file, w.f.fset.Position(n.Pos()).Line, what))
}

// isBound reports whether a call sets or asserts a bound on elapsed time.
func (w walker) isBound(call *ast.CallExpr, receiver, function string) bool {
	isElapsed := func(i int) bool { return len(call.Args) > i && contains(call.Args[i], w.isElapsed) }
	switch strings.TrimSuffix(function, "f") {
	case "Eventually", "EventuallyWithT", "Never":
		return true
	case "Less", "LessOrEqual":
		return isElapsed(1)
	case "Greater", "GreaterOrEqual":
		return isElapsed(2)
	case "After", "Before":
		return receiver == "time" || isNow(call.Fun.(*ast.SelectorExpr).X)
	case "WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause":
		return receiver == "context"
	case "SetDeadline", "SetReadDeadline", "SetWriteDeadline":
		return contains(call, isNow)
	}
	return false
}

// isElapsed reports whether a node is a duration that was measured.
func (w walker) isElapsed(n ast.Node) bool {
	name, ok := n.(*ast.Ident)
	return ok && w.elapsed[name.Name] || isCall(n, "time", "Since")
}

func isNow(n ast.Node) bool    { return isCall(n, "time", "Now") }
func isBubble(n ast.Node) bool { return isCall(n, "synctest", "Test") }

func isCall(n ast.Node, receiver, function string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	r, f := calledName(call)
	return r == receiver && f == function
}

// calledName returns the function that is called, with its package or variable.
func calledName(call *ast.CallExpr) (receiver, function string) {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return "", f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			receiver = x.Name
		}
		return receiver, f.Sel.Name
	}
	return "", ""
}

// contains reports whether a node or one within it matches.
func contains(n ast.Node, matches func(ast.Node) bool) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		found = found || n != nil && matches(n)
		return !found
	})
	return found
}
