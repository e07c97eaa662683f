package api

import (
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/workload"
)

// startOf returns the time that a parameter since names: a time, or an age. It is
// zero without one.
func startOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if from, err := time.Parse(time.RFC3339, text); err == nil {
		return from, nil
	}
	ago, err := time.ParseDuration(text)
	if err != nil || ago < 0 {
		return time.Time{}, invalidf("query.since: %q is neither a time like 2026-01-31T15:04:05Z nor an age like 10m", text)
	}
	return time.Now().Add(-ago), nil
}

// unknownType returns the error of a type of event that there is not, with the one
// that it may stand for, or what events are about.
func unknownType(word string) error {
	about := []string{activity.AgentSubject, activity.CustomSubject}
	var types []string
	for _, t := range activity.Types() {
		types = append(types, string(t))
		if !slices.Contains(about, t.Subject()) {
			about = append(about, t.Subject())
		}
	}
	slices.Sort(about)
	near := workload.Suggest(word, append(slices.Clone(about), types...))
	if near != "" {
		return invalidf("query.type: unknown event type %q: did you mean %s?", word, near)
	}
	return invalidf("query.type: unknown event type %q: it is one of %s, or one of their types", word, strings.Join(about, ", "))
}
