package arch

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// A bannedWord does not come back: the field has a standard term for what it
// was used for.
type bannedWord struct {
	pattern string // of a regular expression, in lower case
	instead string
}

// checkWords reports the banned words in the text of a file: in the
// identifiers, strings and comments of Go source, and anywhere in Markdown.
func checkWords(name string, src []byte) []string {
	var problems []string
	report := func(line int, text string) {
		for _, m := range bannedRegexp.FindAllString(strings.ToLower(text), -1) {
			if !isAllowed(name, m) {
				problems = append(problems, fmt.Sprintf("%s:%d: %q: write %s", name, line, m, replacement(m)))
			}
		}
	}
	if path.Ext(name) == ".md" {
		for i, line := range strings.Split(string(src), "\n") {
			report(i+1, line)
		}
		return problems
	}
	fset := token.NewFileSet()
	file := fset.AddFile(name, -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return problems
		case token.IDENT:
			report(file.Line(pos), spaced(text))
		case token.STRING, token.COMMENT:
			for i, line := range strings.Split(text, "\n") {
				report(file.Line(pos)+i, line)
			}
		}
	}
}

// spaced returns the words of an identifier in camel case, so that takeUp is
// "take Up".
func spaced(ident string) string {
	var b strings.Builder
	for i, r := range ident {
		if i > 0 && unicode.IsUpper(r) || r == '_' {
			b.WriteByte(' ')
		}
		if r != '_' {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// bannedRegexp matches every banned word.
var bannedRegexp = func() *regexp.Regexp {
	patterns := make([]string, len(bannedWords))
	for i, w := range bannedWords {
		patterns[i] = w.pattern
	}
	return regexp.MustCompile(`\b(?:` + strings.Join(patterns, "|") + `)\b`)
}()

// replacement is what to write instead of a word that was found.
func replacement(found string) string {
	for _, w := range bannedWords {
		if regexp.MustCompile(`^(?:` + w.pattern + `)$`).MatchString(found) {
			return w.instead
		}
	}
	return "the standard term"
}

// isAllowed reports whether a file may use a word that is banned elsewhere.
func isAllowed(name, word string) bool {
	for _, a := range allowedWords {
		if matched, _ := path.Match(a.file, name); matched && a.word == word { // the patterns are constants
			return true
		}
	}
	return false
}

// CheckWords reads the Go and Markdown files below root and returns a sentence
// for each banned word, in the order of the files.
func CheckWords(root fs.FS) ([]string, error) {
	var problems []string
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := path.Base(name); name != "." && (strings.HasPrefix(base, ".") || base == "bin" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if ext := path.Ext(name); ext != ".go" && ext != ".md" || strings.HasPrefix(name, "internal/arch/word") {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		problems = append(problems, checkWords(name, src)...)
		return nil
	})
	return problems, err
}
