package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/workload"
)

// parse returns the files that arguments stand for, each after the one that it
// copies hooks from. If one is not valid, the error has the faults of all, as the
// server's has.
func (v *validation) parse(args []string) ([]*checkedFile, error) {
	seen := map[string]bool{}
	for _, arg := range args {
		names, read, err := v.namesOf(arg)
		if err == nil && len(names) == 0 {
			err = fmt.Errorf("%s: the directory has no workload files", arg)
		}
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			path := filepath.Clean(name)
			if seen[path] {
				continue
			}
			seen[path] = true
			f := &checkedFile{name: name}
			source, err := read(name)
			if err != nil {
				return nil, err
			}
			if f.workload, err = workload.Parse(source, name); err != nil {
				f.addErrors(err)
			}
			v.files = append(v.files, f)
		}
	}
	v.checkIDs()
	invalid := &client.Error{Code: client.CodeInvalidWorkload, Title: "invalid workload"}
	for _, f := range v.findings() {
		if f.Severity == isError {
			invalid.ValidationErrors = append(invalid.ValidationErrors, client.ValidationError(f.ValidationError))
		}
	}
	if n := len(invalid.ValidationErrors); n > 0 {
		invalid.Detail = fmt.Sprintf("%d errors in the files", n)
		return nil, invalid
	}
	return v.parentsFirst(), nil
}

// parentsFirst returns the files in their order, but each behind the one that it
// copies hooks from.
func (v *validation) parentsFirst() []*checkedFile {
	byID := map[string]*checkedFile{}
	for _, f := range v.files {
		byID[f.workload.ID] = f
	}
	depth := func(f *checkedFile) (n int) {
		for ; f != nil && f.workload.HooksFrom != "" && n < len(v.files); f = byID[f.workload.HooksFrom] {
			n++ // workloads can name each other
		}
		return n
	}
	files := slices.Clone(v.files)
	slices.SortStableFunc(files, func(a, b *checkedFile) int { return cmp.Compare(depth(a), depth(b)) })
	return files
}

// appliedLines describes what applying a file did, or would do.
func appliedLines(a client.AppliedWorkload) []string {
	if a.Plan == nil {
		return []string{fmt.Sprintf("workload %s %s (revision %s)", a.ID, applySummary(a), a.Revision)}
	}
	revision := "revision " + a.Revision
	if p := a.Plan.PreviousRevision; p != "" && p != a.Revision {
		revision = "revision " + p + " to " + a.Revision
	}
	all := []string{fmt.Sprintf("workload %s would be %s (%s)", a.ID, applySummary(a), revision)}
	if a.Created || !a.Changed {
		return all
	}
	for _, c := range a.Plan.Changes {
		all = append(all, changeLine(c))
	}
	if len(a.Plan.Changes) == 0 {
		all = append(all, "  no value differs: comments, notation, or where it was applied from")
	}
	if a.Plan.EndsDraining {
		all = append(all, "  the pool would end to drain")
	}
	for _, r := range a.Plan.Replaced {
		all = append(all, replacedLine(r, a.Plan.Revised))
	}
	if len(a.Plan.Replaced) == 0 {
		all = append(all, "  no container would be replaced")
	}
	return all
}

func changeLine(c client.FieldChange) string {
	switch {
	case c.Before == nil:
		return "  + " + c.Field + ": " + *c.After
	case c.After == nil:
		return "  - " + c.Field + ": " + *c.Before
	}
	return "  ~ " + c.Field + ": " + *c.Before + " -> " + *c.After
}

// replacedLine describes the containers that would be outdated for one reason.
func replacedLine(r client.Replaced, revised []string) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{r.Idle, "idle once new ones are ready"},
		{r.Claimed, "claimed when released"},
		{r.Creating, "being created, unless that ends soon"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	line := "  would replace containers: " + strings.Join(parts, ", ") + ": " + r.Reason
	if len(revised) > 0 {
		line += " (" + strings.Join(revised, ", ") + ")"
	}
	return line
}
