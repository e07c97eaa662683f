package pool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/workload"
)

// FollowedFiles is what the leader has found in the directory of workload files
// that it follows. It is on record, so that every server can report it and a
// restart repeats no event.
type FollowedFiles struct {
	Dir     string `json:"dir,omitempty"`     // empty: no directory is followed
	Warning string `json:"warning,omitempty"` // what is wrong with the directory as a whole
	Count   int    `json:"count,omitempty"`   // the number of files that are not applied
	Omitted int    `json:"omitted,omitempty"` // the number of files beyond workload.MaxFollowedFiles
	// Invalid has the invalid files, at most maxInvalidFiles.
	Invalid []InvalidFile `json:"invalid,omitempty"`
}

// InvalidFile is a workload file that is not applied.
type InvalidFile struct {
	File     string                     `json:"file"`               // its name in the directory
	Workload string                     `json:"workload,omitempty"` // if it is known
	Faults   []workload.ValidationError `json:"faults"`             // at most maxFaults
	More     int                        `json:"more,omitempty"`     // the number of other faults
	// Reported identifies the faults that have an event, the last ones first.
	Reported []string `json:"reported"`
}

// The bounds of a record of FollowedFiles: the faults of a file, the length of
// their texts, and of how many different faults a file has one event each.
const (
	maxInvalidFiles  = 100
	maxFaults        = 5
	maxFaultText     = 300
	maxReportedFault = 16
)

// NewInvalidFile returns the record of a file with that error.
func NewInvalidFile(file, id string, err error) InvalidFile {
	f := InvalidFile{File: filepath.Base(file), Workload: id}
	all := []workload.ValidationError{{Message: err.Error()}}
	if invalid, ok := errors.AsType[workload.ValidationErrors](err); ok {
		all = slices.Clone(invalid)
	} else if twice, ok := errors.AsType[*workload.DuplicateIDError](err); ok {
		all = []workload.ValidationError{duplicateFault(f.File, twice)}
	}
	if len(all) > maxFaults {
		all, f.More = all[:maxFaults], len(all)-maxFaults
	}
	for i := range all {
		e := &all[i]
		e.File = "" // it is a path of the server
		e.Field, e.Message, e.Hint = shorten(e.Field), shorten(e.Message), shorten(e.Hint)
	}
	f.Faults = all
	return f
}

// duplicateFault returns the fault of a file whose id others have too.
func duplicateFault(file string, e *workload.DuplicateIDError) workload.ValidationError {
	var others []string
	for _, other := range e.Files {
		if len(others) == maxFaults {
			break
		}
		if name := filepath.Base(other); name != file {
			others = append(others, name)
		}
	}
	return workload.ValidationError{
		Field: "id", Message: fmt.Sprintf("is %s, which is also in %s", e.ID, strings.Join(others, ", ")), Hint: "choose another id",
	}
}

func shorten(s string) string {
	if r := []rune(s); len(r) > maxFaultText {
		return string(r[:maxFaultText]) + "…"
	}
	return s
}

// String describes the file and its first fault.
func (f InvalidFile) String() string {
	first := f.Faults[0]
	first.File = f.File
	if more := len(f.Faults) - 1 + f.More; more > 0 {
		return fmt.Sprintf("%s, and %d more", first, more)
	}
	return first.String()
}

// id identifies the faults.
func (f InvalidFile) id() string {
	sum := sha256.Sum256(fmt.Append(nil, f.Faults, f.More))
	return hex.EncodeToString(sum[:8])
}

// Update replaces the record by what was found now, with every invalid file, and
// returns the events, at most so many: one for each fault of a file that has none yet,
// and one when nothing is wrong with a file any more. A fault without room has its
// event in a later update. The end of one that never had an event has none.
func (f *FollowedFiles) Update(found FollowedFiles, most int) []activity.Event {
	var events []activity.Event
	report := func(after *InvalidFile, reported []string) {
		if after.Reported = reported; len(events) < most {
			events = append(events, after.report(reported)...)
		}
	}
	now := map[string]*InvalidFile{}
	for i := range found.Invalid {
		now[found.Invalid[i].File] = &found.Invalid[i]
	}
	var kept []InvalidFile
	for _, before := range f.Invalid {
		after := now[before.File]
		if after == nil || f.Dir != found.Dir { // else it is another file
			if len(before.Reported) > 0 && len(events) < most {
				events = append(events, before.accepted(found.Dir))
			}
			continue
		}
		delete(now, before.File)
		report(after, before.Reported)
		kept = append(kept, *after)
	}
	for i := range found.Invalid {
		after := &found.Invalid[i]
		if now[after.File] == nil || len(kept) >= maxInvalidFiles {
			continue
		}
		report(after, nil)
		kept = append(kept, *after)
	}
	slices.SortFunc(kept, func(a, b InvalidFile) int { return cmp.Compare(a.File, b.File) })
	// The first of those that are omitted is one of the invalid.
	found.Invalid, found.Count = kept, len(found.Invalid)+max(0, found.Omitted-1)
	*f = found
	return events
}

// report returns the event of the file's faults, unless they have one already.
func (f *InvalidFile) report(reported []string) []activity.Event {
	id := f.id()
	if f.Reported = reported; slices.Contains(reported, id) {
		return nil
	}
	f.Reported = append([]string{id}, reported[:min(len(reported), maxReportedFault-1)]...)
	data := activity.WorkloadRejectedData{File: f.File, More: f.More}
	for _, e := range f.Faults {
		data.Faults = append(data.Faults, activity.FileFault{
			Line: e.Line, Column: e.Column, Field: e.Field, Message: e.Message, Hint: e.Hint,
		})
	}
	return []activity.Event{{
		Type: activity.WorkloadRejected, Workload: f.Workload, Message: "workload file not applied: " + f.String(), Data: activity.Data(data),
	}}
}

// accepted returns the event that nothing is wrong with the file any more.
func (f *InvalidFile) accepted(dir string) activity.Event {
	message := fmt.Sprintf("workload file %s is valid or removed", f.File)
	if dir == "" {
		message = fmt.Sprintf("workload file %s is not followed any more", f.File)
	}
	return activity.Event{
		Type: activity.WorkloadAccepted, Workload: f.Workload, Message: message,
		Data: activity.Data(activity.WorkloadAcceptedData{File: f.File}),
	}
}
