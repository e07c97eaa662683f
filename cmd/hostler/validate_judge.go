package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler/hostler/workload"
)

// judgement is what a file of a directory with other files is.
type judgement int

const (
	isIgnored  judgement = iota // its name or its beginning is that of another kind of file
	isWorkload                  // or it cannot be read
	isOther                     // it has the format of a workload file and describes something else
)

// judge judges a file that --all has found.
func (v *validation) judge(name string) judgement {
	ext := strings.ToLower(filepath.Ext(name))
	isMarkdown := ext == ".md" || ext == ".markdown"
	if !isMarkdown && ext != ".yaml" && ext != ".yml" {
		return isIgnored
	}
	source, err := workload.ReadFile(name)
	switch {
	case err != nil:
		return isWorkload
	case isMarkdown && !strings.HasPrefix(string(source), "---\n"):
		return isIgnored // a text, perhaps with an example of a workload file
	case workload.IsWorkload(source, name):
		return isWorkload
	}
	return isOther
}

// skip records a file once, also if several arguments stand for it.
func (v *validation) skip(name string) {
	if !slices.Contains(v.skipped, filepath.Clean(name)) {
		v.skipped = append(v.skipped, filepath.Clean(name))
	}
}
