package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/hooks"
)

// The last events of those since a time, or after another one, are the last of the
// log that are not older.
func TestLastEventsSince(t *testing.T) {
	b := serveTestBackend(t)
	b.Log = nil
	for seq, tenant := range []string{"ann", "bob", "ann", "ann", "bob"} {
		b.Log = append(b.Log, activity.Event{
			Seq: int64(seq + 1), Type: activity.ClaimActivated, Tenant: tenant, Message: "active", Time: apitest.Time.Add(time.Duration(seq) * time.Minute),
		})
	}
	at := func(minute int) string {
		return apitest.Time.Add(time.Duration(minute) * time.Minute).Format(time.RFC3339)
	}
	for args, want := range map[string]string{
		"-n 2":                               "4 5",
		"-n 2 --since " + at(1):              "4 5",
		"-n 9 --since " + at(3):              "4 5",
		"-n 9 --after 2":                     "3 4 5",
		"-n 9 --tenant ann --since " + at(1): "3 4",
		"-n 1 --tenant ann --since " + at(1): "4",
		"-n 9 --tenant ann --since " + at(4): "",
		"-n 9 --since " + at(9):              "",
	} {
		code, out, errOut := hostler(t, "", append([]string{"events"}, strings.Fields(args)...)...)
		require.Equal(t, exitOK, code, "%s: %s", args, errOut)
		var got []string
		for line := range strings.Lines(out) {
			got = append(got, strings.Fields(line)[0])
		}
		require.Equal(t, want, strings.Join(got, " "), args)
	}
}

// Hook runs are listed since a time or an age, as events are.
func TestRunsSince(t *testing.T) {
	b := serveTestBackend(t)
	b.Attempts = []hooks.Run{
		{ID: "run-old", Attempt: 1, StartedAt: apitest.Time},
		{ID: "run-new", Attempt: 1, StartedAt: time.Now()},
	}
	for since, want := range map[string]string{
		"":                                "run-old run-new",
		apitest.Time.Format(time.RFC3339): "run-old run-new",
		"1h":                              "run-new",
		"1d":                              "run-new",
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339): "",
	} {
		code, out, errOut := hostler(t, "", "get", "runs", "-o", "name", "--since", since)
		require.Equal(t, exitOK, code, errOut)
		require.Equal(t, want, strings.Join(strings.Fields(out), " "), since)
	}
}
