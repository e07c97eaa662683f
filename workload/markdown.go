package workload

import (
	"bytes"
	"path/filepath"
	"strings"
)

// frontMatter returns the part of a file that is YAML: of a Markdown file what is
// between its first two lines of three dashes, else all of it. The lines keep
// their numbers.
func frontMatter(source []byte, name string) []byte {
	ext := strings.ToLower(filepath.Ext(name))
	if ext != ".md" && ext != ".markdown" {
		return source
	}
	for i, n := 0, 0; i < len(source); n++ {
		end := len(source)
		if j := bytes.IndexByte(source[i:], '\n'); j >= 0 {
			end = i + j + 1
		}
		if isDashes := string(bytes.TrimRight(source[i:end], " \t\r\n")) == "---"; isDashes && n > 0 {
			return source[:i]
		} else if !isDashes && n == 0 {
			return source // it has none
		}
		i = end
	}
	return source
}
