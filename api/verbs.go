package api

import "strings"

// verbs are operations as people name them: what to do, and with what. Things are in
// the singular. A row names the operation that its other words depend on: who may
// start a command may also read its output.
var verbs = []struct{ verb, things string }{
	{"list", "workload pool container claim wait snapshot run delivery event command memory file key binding"},
	{"get", "workload pool container claim wait run delivery event command memory file key binding log metric"},
	{"create", "claim wait event command link key token"},
	{"apply", "workload binding"},
	{"delete", "workload container memory file binding"},
	{"put", "memory file"},
	{"release", "claim"},
	{"touch", "claim"},
	{"sync", "claim"},
	{"signal", "wait command"},
	{"end", "command"},
	{"attach", "command"},
	{"connect", "port"},
	{"scale", "pool"},
	{"drain", "pool"},
	{"restore", "snapshot"},
	{"retry", "delivery"},
	{"discard", "delivery"},
	{"replay", "event"},
	{"follow", "event"},
	{"test", "hook"},
	{"revoke", "key"},
	{"run", "doctor"},
}

// operationsOf are the operations of verbs and things whose id is not VERB-THING,
// with or without an s.
var operationsOf = map[string]string{
	"list file": "get-file", "get event": "events", "list event": "events", "get log": "container-logs",
	"get metric": "metrics", "create claim": "claim", "create wait": "wait", "create event": "publish-event",
	"create command": "exec", "apply binding": "put-binding", "delete container": "destroy-container",
	"release claim": "release", "touch claim": "touch", "sync claim": "sync", "signal wait": "signal",
	"list delivery": "list-deliveries", "run doctor": "doctor",
}

// OperationOf returns the id of the operation that does something with a thing, whose
// word may be in the plural.
func OperationOf(verb, thing string) (id string, ok bool) {
	thing = singular(thing)
	for _, row := range verbs {
		if row.verb != verb {
			continue
		}
		for known := range strings.FieldsSeq(row.things) {
			if known == thing {
				return operationID(verb, thing), true
			}
		}
	}
	return "", false
}

func operationID(verb, thing string) string {
	if id, ok := operationsOf[verb+" "+thing]; ok {
		return id
	}
	for _, id := range []string{verb + "-" + thing, verb + "-" + thing + "s"} {
		if _, ok := rules[id]; ok {
			return id
		}
	}
	return ""
}

// singular returns a thing's word in the singular.
func singular(thing string) string {
	if stem, ok := strings.CutSuffix(thing, "ies"); ok && stem != "" {
		return stem + "y"
	}
	return strings.TrimSuffix(thing, "s")
}

// Verbs returns the verbs, each with its things, as text for people.
func Verbs() string {
	var rows []string
	for _, row := range verbs {
		rows = append(rows, row.verb+" "+strings.ReplaceAll(row.things, " ", "|"))
	}
	return strings.Join(rows, ", ")
}
