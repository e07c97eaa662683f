package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"time"
)

// waitCommand waits for a signal. Its exit codes are those of the command line.
var waitCommand = askCommand{
	name: "wait", args: "--type T --timeout D [--name N] [--on-timeout A] [--context JSON]", request: "wait", long: true,
	short: "wait for a signal and print its data as JSON", body: waitBody,
	text: func(answer []byte) string {
		w := parseWaited(answer)
		if w.State != "signalled" {
			return ""
		}
		return string(w.Data)
	},
	outcome: func(answer []byte) (code int, problem string) {
		w := parseWaited(answer)
		code, failed := waitExits[w.State]
		if !failed {
			return 0, ""
		}
		return code, "the wait was not signalled: it is " + w.State
	},
}

// waitExits are the exit codes of waits that ended without a signal.
var waitExits = map[string]int{"timed_out": 8, "aborted": 9, "cancelled": 10}

// waited is the answer.
type waited struct {
	State string
	Data  json.RawMessage
}

func parseWaited(answer []byte) waited {
	w := waited{Data: json.RawMessage("null")}
	_ = json.Unmarshal(answer, &w) // it is the server's
	return w
}

func waitBody(flags *flag.FlagSet, args []string) (any, error) {
	var b struct {
		Name      string          `json:"name,omitempty"`
		Type      string          `json:"type"`
		Timeout   string          `json:"timeout"`
		OnTimeout string          `json:"on_timeout,omitempty"`
		Context   json.RawMessage `json:"context,omitempty"`
	}
	var timeout time.Duration
	flags.StringVar(&b.Type, "type", "", "what to wait for: consensus, validation, dependency or another lower-case word")
	flags.DurationVar(&timeout, "timeout", 0, "how long to wait, such as 60s")
	flags.StringVar(&b.Name, "name", "", "the name of the signal")
	flags.StringVar(&b.OnTimeout, "on-timeout", "", "what to do after the deadline unless a hook decides: abort, retry, extend or escalate")
	context := flags.String("context", "", "JSON for the hooks")
	rest, err := parseMixed(flags, args)
	switch {
	case err != nil:
		return nil, err
	case len(rest) > 0:
		return nil, fmt.Errorf("unexpected argument %q", rest[0])
	case b.Type == "" || timeout <= 0:
		return nil, errors.New("name what to wait for with --type and how long with --timeout")
	}
	if b.Context = json.RawMessage(*context); *context != "" && !json.Valid(b.Context) {
		return nil, errors.New("the context is not JSON")
	}
	b.Timeout = timeout.String()
	return b, nil
}
