package publish

import (
	"bytes"
	"encoding/json"

	"github.com/hostler/hostler/activity"
)

// IsRepeated reports whether a request for an event is that of an earlier one with
// its ID. What the activity was before is of no account: it may have changed since.
func IsRepeated(earlier, e activity.Event) bool {
	return earlier.Type == e.Type && priority(earlier) == priority(e) && bytes.Equal(requested(earlier), requested(e))
}

// priority returns the priority of an event.
func priority(e activity.Event) int {
	if e.Priority == nil {
		return activity.DefaultPriority
	}
	return *e.Priority
}

// requested returns the part of an event's data that is the program's.
func requested(e activity.Event) []byte {
	var d activity.AgentActivityChangedData
	if e.Type != activity.AgentActivityChanged || json.Unmarshal(e.Data, &d) != nil {
		return e.Data
	}
	d.PreviousActivity = ""
	return activity.Data(d)
}
