package api

import "regexp"

// traceparentPattern matches the traceparent header of version 00, as W3C Trace
// Context defines it.
var traceparentPattern = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// The ids that are not valid.
const (
	zeroTraceID  = "00000000000000000000000000000000"
	zeroParentID = "0000000000000000"
)

// validTraceparent returns a traceparent header, or "" if it is not valid: it is
// then ignored, as the standard says.
func validTraceparent(header string) string {
	ids := traceparentPattern.FindStringSubmatch(header)
	if ids == nil || ids[1] == zeroTraceID || ids[2] == zeroParentID {
		return ""
	}
	return header
}
