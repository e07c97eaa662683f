package hooks

import "regexp"

// printedRegexp matches what the errors of hooks (see Error) and of health checks
// have before the text that was printed, and that text.
var printedRegexp = regexp.MustCompile(`(?s)( hook "(?:[^"\\]|\\.)*"(?: \(attempt \d+\))?|: its check) ` +
	`(exited with code -?\d+|was terminated by \w+|ran longer than [^\s:]+|ran longer than its timeout(?: of [^\s:]+)? and was terminated): .*`)

// WithoutOutput returns a reason, or any text that has one, without what the hook or
// the health check has printed in the container, and without what follows that: for
// those who may know that it failed, and not read what a tenant's container prints.
func WithoutOutput(text string) string { return printedRegexp.ReplaceAllString(text, "$1 $2") }
