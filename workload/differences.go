package workload

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/hostler/hostler/hooks"
)

// difference is what a form of another format means there and does not mean
// here. It is noted once for a file.
type difference struct {
	form    hookForm
	concern func(h placedHook) bool
	message func(h placedHook) string
}

var differences = []difference{
	{listedForm, isRequest, text("is sent by the server, not from the container: it has the environment of this file and its declared secrets, only the status of the response is recorded, and X-Hostler-Hook-ID and Idempotency-Key are the same at every attempt")},
	{listedForm, usesGCP, text("takes the server's Google credentials in the order of Google's libraries, if the operator allows it")},
	{listedForm, isRetried, func(h placedHook) string {
		return fmt.Sprintf("has %d retries after the first attempt", *h.Retries)
	}},
	{listedForm, func(h placedHook) bool { return h.event }, text("is not in order with other hooks: hooks for events do not wait for each other")},
	{textForm, func(placedHook) bool { return true }, text("has at most 5 s of CPU time and files of at most 100 MB; memory and shares of a processor are those of the container, which it is not isolated from")},
	{textForm, startsJobs, text("starts a job that it does not wait for: the job ends with the script")},
	{namesForm, func(h placedHook) bool { return *h.Builtin != "log" }, text("writes a record to the server's log: the activity log has every event without it")},
}

func text(s string) func(placedHook) string { return func(placedHook) string { return s } }

func isRequest(h placedHook) bool { return h.HTTP != nil || h.Webhook != nil }

func usesGCP(h placedHook) bool {
	return h.HTTP != nil && h.HTTP.Auth != nil && authTypes[h.HTTP.Auth.Type] == hooks.AuthGCP
}

func isRetried(h placedHook) bool { return h.OnError == string(hooks.Retry) && h.Retries != nil }

var jobRegexp = regexp.MustCompile(`(?m)\bdisown\b|[^&]&[ \t]*$`)

func startsJobs(h placedHook) bool { return jobRegexp.MatchString(string(*h.Script)) }

// noteDifferences notes what the file means differently here.
func (d *decoder) noteDifferences(f *file) {
	for _, diff := range differences {
		i := slices.IndexFunc(f.Hooks.hooks, func(h placedHook) bool {
			return h.form == diff.form && !d.invalid[h.at] && diff.concern(h)
		})
		if i >= 0 {
			h := f.Hooks.hooks[i]
			d.addNoteAt(h.at, diff.message(h), "")
		}
	}
	for key, given := range map[string]bool{"harness": f.Harness != "", "default_harness_config": f.HarnessConf != ""} {
		if given {
			d.addNoteAt(key, "has no effect", "remove it")
		}
	}
}
