package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Limits of a file. They are far above the needs of files that are written by
// hand, and far below what would make parsing slow.
const (
	MaxSize  = 1 << 20 // bytes
	maxDepth = 32      // nested mappings and lists
	maxNodes = 50_000  // keys, values and lists, each alias counted in full
	// maxIndicators bounds what can begin a node before there are nodes. Texts in a file
	// have such characters, too.
	maxIndicators = 100_000
)

// parsing has one file parsed at a time: the nodes of one may have fifty times its size.
var parsing = make(chan struct{}, 1)

// parseNode reads source as one YAML document.
func parseNode(source []byte) (root *yaml.Node, invalid *ValidationError) {
	if len(source) > MaxSize {
		return nil, &ValidationError{Message: fmt.Sprintf("is larger than %d bytes", MaxSize)}
	}
	if n := indicators(source); n > maxIndicators {
		return nil, &ValidationError{
			Message: fmt.Sprintf("has %d of the characters [ { , : - ? # that can begin a value, more than %d", n, maxIndicators),
			Hint:    "move long texts to files of the image",
		}
	}
	if tagRegexp.Match(source) || !utf8.Valid(source) {
		return nil, &ValidationError{Message: "has a %TAG directive, or is not UTF-8", Hint: "remove the directive, and save the file as UTF-8"}
	}
	// The parser should return errors, but it is not maintained: input that makes
	// it panic must not terminate a server that others share.
	defer func() {
		if p := recover(); p != nil {
			root, invalid = nil, &ValidationError{Line: 1, Column: 1, Message: fmt.Sprintf("cannot be parsed as YAML: %v", p)}
		}
	}()
	in := yaml.NewDecoder(bytes.NewReader(fromJSON(source)))
	var doc yaml.Node
	err := in.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && isEmpty(&doc) {
		return nil, &ValidationError{Line: 1, Column: 1, Message: "is empty", Hint: "write at least id and image"}
	}
	if err != nil {
		return nil, syntaxError(err)
	}
	var more yaml.Node
	switch err := in.Decode(&more); {
	case errors.Is(err, io.EOF):
		return doc.Content[0], nil
	case err != nil:
		return nil, syntaxError(err)
	}
	return nil, &ValidationError{
		Line: more.Line, Column: more.Column,
		Message: "has a second document", Hint: "one file describes one workload: remove what follows ---",
	}
}

// tagRegexp matches the directive of a tag, which the parser repeats in each node of
// the tag. Other lines that it matches are no YAML, or very unlikely.
var tagRegexp = regexp.MustCompile(`(^|[^\t -~])%TAG`)

// indicators returns how many characters of a file can begin a node or a comment. The
// parser makes at most three nodes for one of them, and stops for no limit: of a list
// in brackets, ["a":b,"c":d], each comma begins a mapping, its key and its value.
func indicators(source []byte) (n int) {
	var prev byte
	inFlow := false // since the first bracket: what closes it may be text
	for i, c := range source {
		next := byte(0)
		if i+1 < len(source) {
			next = source[i+1]
		}
		switch c {
		case '[', '{':
			n, inFlow = n+1, true
		case ',':
			if inFlow {
				n++
			}
		case '#':
			if prev != '#' {
				n++
			}
		case '-', ':', '?':
			if next <= ' ' || next >= utf8.RuneSelf {
				n++
			}
		}
		prev = c
	}
	return n
}

// isEmpty reports whether a document has no content.
func isEmpty(doc *yaml.Node) bool {
	return len(doc.Content) != 1 || doc.Content[0].ShortTag() == "!!null" && doc.Content[0].Value == ""
}

var lineRegexp = regexp.MustCompile(`^line (\d+): `)

// syntaxError extracts the line from the parser's message.
func syntaxError(err error) *ValidationError {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	f := &ValidationError{Line: 1, Column: 1, Message: "is not valid YAML: " + truncate(text)}
	if m := lineRegexp.FindStringSubmatch(text); m != nil {
		if line, convErr := strconv.Atoi(m[1]); convErr == nil && line > 0 {
			f.Line = line
		}
		f.Message = "is not valid YAML: " + truncate(strings.TrimPrefix(text, m[0]))
	}
	return f
}

// escapeRegexp matches an escape of JSON: a surrogate pair, or any other escape,
// so that \\ud83d is not matched as one.
var escapeRegexp = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\.`)

// fromJSON converts JSON to YAML. JSON is YAML except for two escapes that many
// encoders write and the parser does not support: surrogate pairs, and \/.
func fromJSON(source []byte) []byte {
	if !json.Valid(source) {
		return source
	}
	return escapeRegexp.ReplaceAllFunc(source, func(esc []byte) []byte {
		if string(esc) == `\/` {
			return esc[1:]
		}
		if len(esc) != len(`\ud83d\ude00`) {
			return esc
		}
		high, _ := strconv.ParseUint(string(esc[2:6]), 16, 32) // the pattern ensures that
		low, _ := strconv.ParseUint(string(esc[8:12]), 16, 32) // both are hexadecimal
		return fmt.Appendf(nil, `\U%08X`, (high-0xd800)<<10+(low-0xdc00)+0x10000)
	})
}

// resolve returns the target of an alias, or n itself.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// pair is a key of a mapping and its value.
type pair struct {
	key, value *yaml.Node
}

// isMerge reports whether a key is YAML's <<, which merges the keys of another
// mapping.
func isMerge(key *yaml.Node) bool { return key.ShortTag() == "!!merge" }

// pairs returns the pairs of a mapping, with those that its << keys merge. Its
// own keys take precedence over merged ones, earlier merged ones over later.
func pairs(n *yaml.Node) []pair {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return nil
	}
	var own, merged []pair
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		if key.Kind != yaml.ScalarNode {
			continue // nodeChecker has reported it
		}
		if !isMerge(key) {
			own, seen[key.Value] = append(own, pair{key, value}), true
			continue
		}
		if value.Kind != yaml.SequenceNode {
			merged = append(merged, pairs(value)...)
			continue
		}
		for _, from := range value.Content {
			merged = append(merged, pairs(from)...)
		}
	}
	for _, p := range merged {
		if !seen[p.key.Value] {
			own, seen[p.key.Value] = append(own, p), true
		}
	}
	return own
}

// kindOf returns the kind of a node in words.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if words, ok := scalarKinds[n.ShortTag()]; ok {
		return words
	}
	return "text"
}

var scalarKinds = map[string]string{
	"!!int": "a whole number", "!!float": "a number with a point", "!!bool": "true or false", "!!null": "nothing",
}
