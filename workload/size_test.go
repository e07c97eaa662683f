package workload

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// requireFewNodes checks that the parser makes no more nodes than indicators bounds.
func requireFewNodes(t *testing.T, source []byte) {
	t.Helper()
	var count func(n *yaml.Node) int
	count = func(n *yaml.Node) int {
		all := 1
		for _, e := range n.Content {
			all += count(e)
		}
		return all
	}
	var doc yaml.Node
	if yaml.Unmarshal(source, &doc) == nil {
		require.LessOrEqual(t, count(&doc), 3*indicators(source)+4, "%.100q", source)
	}
}

// A file is refused before the parser makes a tree of it that is much larger: the
// indicators bound the nodes of what it accepts, whatever their form.
func TestLargeTreesAreNotParsed(t *testing.T) {
	for _, of := range []string{
		"[", "[0,", "[{a: b},", "{a,", "{a:,", "{? ,", "[a: b,", `["a":b,`, `{"a":{"b":c},`, "[?,", "[*a,", "[? a : b,",
		"- ", "- - a\n", "- a\n", "-\n", "a:\n", "? ", "? a\n", "- ? a\n", "- a: b\n", "? - a\n: - b\n", "-\u0085", "-\t", "a: b\r", "#\n\n", "a: b #\n",
	} {
		for _, n := range []int{1, 9} {
			requireFewNodes(t, []byte("&a x: "+strings.Repeat(of, n)))
			requireFewNodes(t, []byte(strings.Repeat(of, n)))
			for _, end := range []string{"]", "}", "a]"} {
				requireFewNodes(t, []byte("x: "+of+strings.Repeat(of[1:], n)+end))
			}
		}
		_, err := Parse([]byte(strings.Repeat(of, MaxSize/len(of))), "w.yaml")
		require.ErrorContains(t, err, "that can begin a value, more than 100000", of)
	}
	hook := "  - script: |\n" + strings.Repeat("      if [ \"$1\" = x ]; then echo 'a, b: c'; fi # done\n", 1000)
	_, err := Parse([]byte(fileWith("hooks:\n  post_claim:\n"+strings.Repeat(hook, 16))), "w.yaml")
	require.NoError(t, err)
}

// The parser copies the prefix of a tag into each node: half a file of it, and half a
// file of nodes, would be 25 GB.
func TestTagsAreRefused(t *testing.T) {
	for _, before := range []string{"", "\ufeff", "#\n", "#\r", "#\u0085", "#\u2028", "%YAML 1.1\n"} {
		_, err := Parse([]byte(before+"%TAG !a! tag:x,2000:\n---\nid: !a!b w\n"), "w.yaml")
		require.ErrorContains(t, err, "%TAG", "%q", before)
	}
	utf16 := "\xff\xfe"
	for _, c := range "%TAG !a! tag:x,2000:\n---\nid: !a!b w\n" {
		utf16 += string(c) + "\x00"
	}
	_, err := Parse([]byte(utf16), "w.yaml")
	require.ErrorContains(t, err, "UTF-8")
	_, err = Parse([]byte("%YAML 1.1\n---\nid: w\nimage: box\nenvironment: { A: 'a %TAG' }\n"), "w.yaml")
	require.NoError(t, err)
}

// Many errors at long paths are not collected.
func TestErrorsAtLongPaths(t *testing.T) {
	d := &decoder{nodes: map[string]*yaml.Node{}, invalid: map[string]bool{}}
	root, invalid := parseNode([]byte(strings.Repeat("{"+strings.Repeat("k", 60)+": ", 30) + "[" + strings.Repeat("!a b,", 40_000) + "]" + strings.Repeat("}", 30)))
	require.Nil(t, invalid)
	checker := nodeChecker{d: d}
	require.False(t, checker.walk(root, "", 0))
	require.Len(t, d.errs, maxKept)
	require.Contains(t, d.errs.sortAndLimit().Error(), "at least 901 more errors")
}

// One file is parsed at a time.
func TestFilesAreParsedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		global := parsing
		defer func() { parsing = global }()
		parsing = make(chan struct{}, 1)
		w, err := Parse([]byte(fileWith("")), "w.yaml")
		require.NoError(t, err)
		for _, parse := range []func(){
			func() { _, _ = Parse(w.Source, "w.yaml") },
			func() { _ = w.ValidationErrors("w.yaml") },
			func() { w.sourceWithHooks() },
		} {
			parsing <- struct{}{}
			done := make(chan struct{}, 1)
			go func() { parse(); done <- struct{}{} }()
			synctest.Wait()
			require.Empty(t, done)
			<-parsing
			<-done
		}
	})
}
