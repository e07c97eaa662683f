package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/workload"
)

func faultyFile(name, message string) InvalidFile {
	return NewInvalidFile("/etc/hostler/"+name, "web", workload.ValidationErrors{{File: "/etc/hostler/" + name, Line: 4, Column: 2, Field: "image", Message: message}})
}

// described returns type and message of events.
func described(all []activity.Event) []string {
	list := []string{}
	for _, e := range all {
		list = append(list, string(e.Type)+" "+e.Message)
	}
	return list
}

// A fault of a file has one event, also when it comes back, after a restart and
// with another leader; and so has the end of all faults.
func TestFollowedFilesEvents(t *testing.T) {
	var record FollowedFiles
	found := func(files ...InvalidFile) FollowedFiles { return FollowedFiles{Dir: "/etc/hostler", Invalid: files} }
	for _, step := range []struct {
		found FollowedFiles
		want  []string
		count int
	}{
		{found(), nil, 0},
		{found(faultyFile("b.yaml", "is one")), []string{"workload.rejected workload file not applied: b.yaml:4:2: image: is one"}, 1},
		{found(faultyFile("b.yaml", "is one")), nil, 1},
		{found(faultyFile("b.yaml", "is two"), faultyFile("c.yaml", "is one")), []string{
			"workload.rejected workload file not applied: b.yaml:4:2: image: is two",
			"workload.rejected workload file not applied: c.yaml:4:2: image: is one",
		}, 2},
		{found(faultyFile("b.yaml", "is one"), faultyFile("c.yaml", "is one")), nil, 2},
		{found(faultyFile("c.yaml", "is one")), []string{"workload.accepted workload file b.yaml is valid or removed"}, 1},
		{found(faultyFile("c.yaml", "is one"), faultyFile("b.yaml", "is one")), []string{"workload.rejected workload file not applied: b.yaml:4:2: image: is one"}, 2},
		{FollowedFiles{Dir: "/elsewhere", Invalid: []InvalidFile{faultyFile("b.yaml", "is one"), faultyFile("c.yaml", "is one")}}, []string{
			"workload.accepted workload file b.yaml is valid or removed", "workload.accepted workload file c.yaml is valid or removed",
			"workload.rejected workload file not applied: b.yaml:4:2: image: is one", "workload.rejected workload file not applied: c.yaml:4:2: image: is one",
		}, 2},
		{FollowedFiles{}, []string{
			"workload.accepted workload file b.yaml is not followed any more", "workload.accepted workload file c.yaml is not followed any more",
		}, 0},
	} {
		got := record.Update(step.found, maxInvalidFiles)
		require.ElementsMatch(t, step.want, described(got))
		require.Equal(t, step.count, record.Count)
		for _, e := range got {
			require.Equal(t, "web", e.Workload)
		}
		// The next step is that of another server.
		text, err := json.Marshal(record)
		require.NoError(t, err)
		record = FollowedFiles{}
		require.NoError(t, json.Unmarshal(text, &record))
	}
}

// Neither many files nor long faults make the record or an event large, and a file
// beyond the bound has no event for having disappeared from it.
func TestFollowedFilesAreBounded(t *testing.T) {
	var record FollowedFiles
	var many []InvalidFile
	for i := range 2 * maxInvalidFiles {
		var all workload.ValidationErrors
		for range 50 {
			all = append(all, workload.ValidationError{Field: strings.Repeat("f", 1000), Message: strings.Repeat("ü", 1000), Hint: strings.Repeat("h", 1000)})
		}
		many = append(many, NewInvalidFile(fmt.Sprintf("%03d.yaml", 2*maxInvalidFiles-i), "", all))
	}
	require.Len(t, record.Update(FollowedFiles{Dir: "d", Invalid: many}, 1000), maxInvalidFiles)
	require.Equal(t, 2*maxInvalidFiles, record.Count)
	require.Len(t, record.Invalid, maxInvalidFiles)
	text, err := json.Marshal(record)
	require.NoError(t, err)
	require.Less(t, len(text), 1<<20)

	require.Empty(t, record.Update(FollowedFiles{Dir: "d", Invalid: many}, 1000))
	require.Equal(t, 49+1-maxFaults, record.Invalid[0].More)
	for range 3 * maxReportedFault {
		f := &record.Invalid[0]
		f.Faults[0].Message += "x"
		f.report(f.Reported)
	}
	require.Len(t, record.Invalid[0].Reported, maxReportedFault)
}

// A fault names no directory of the server.
func TestInvalidFile(t *testing.T) {
	for want, err := range map[string]error{
		"a.yaml: id: is web, which is also in b.yaml, c.yaml (choose another id)": &workload.DuplicateIDError{
			ID: "web", Files: []string{"/srv/a.yaml", "/srv/b.yaml", "/srv/c.yaml"}},
		"a.yaml:1:2: image: is wrong, and 1 more": workload.ValidationErrors{
			{File: "/srv/a.yaml", Line: 1, Column: 2, Field: "image", Message: "is wrong"}, {Message: "other"}},
		"a.yaml: no space": errors.New("no space"),
	} {
		f := NewInvalidFile("/srv/a.yaml", "web", err)
		require.Equal(t, want, f.String())
		require.NotContains(t, fmt.Sprint(f.Faults), "/srv")
	}
}

// A file that alternates between faults, or between a fault and none, has no more
// events than there is room for. What is on record is right nevertheless, and has its
// event later.
func TestFollowedFilesEventsAreBounded(t *testing.T) {
	var record FollowedFiles
	room, events := 5, 0
	update := func(files ...InvalidFile) {
		n := len(record.Update(FollowedFiles{Dir: "d", Invalid: files}, room))
		room, events = room-n, events+n
	}
	for i := range 50 {
		update(faultyFile("b.yaml", fmt.Sprintf("is %d", i)))
		require.Equal(t, fmt.Sprintf("is %d", i), record.Invalid[0].Faults[0].Message)
		if i%2 == 1 {
			update()
			require.Empty(t, record.Invalid)
		}
	}
	require.Equal(t, 5, events)
	last := faultyFile("b.yaml", "is the last")
	update(last)
	room = 1
	update(last)
	update(last)
	require.Equal(t, 6, events)
}
