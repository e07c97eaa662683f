package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
)

// eventCommands are the commands by which a program reports what it does.
var eventCommands = []askCommand{
	{
		name: "event publish", args: "TYPE [--data JSON] [--priority N]", request: "event.publish",
		short: "publish an event: agent.TYPE, or custom.TYPE", body: eventBody,
		text: func(answer []byte) string {
			var e struct{ Type string }
			_ = json.Unmarshal(answer, &e) // it is the server's
			return "published " + e.Type
		},
	},
	{
		name: "activity", args: "ACTIVITY [--tool NAME] [--task TEXT]", request: "activity",
		short: "report what the program does, such as thinking, executing or idle", body: activityBody,
		text: func(answer []byte) string {
			var a struct{ Activity string }
			_ = json.Unmarshal(answer, &a)
			return a.Activity
		},
	},
}

func eventBody(flags *flag.FlagSet, args []string) (any, error) {
	var b struct {
		Type     string          `json:"type"`
		Data     json.RawMessage `json:"data,omitempty"`
		Priority *int            `json:"priority,omitempty"`
	}
	data := flags.String("data", "", "details, as JSON")
	priority := flags.Int("priority", -1, "0 to 9; 7 if it is not given")
	var err error
	if b.Type, err = parseOne(flags, args, "type"); err != nil {
		return nil, err
	}
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "priority" {
			b.Priority = priority
		}
	})
	if *data != "" {
		if b.Data = json.RawMessage(*data); !json.Valid(b.Data) {
			return nil, errors.New("the data is not JSON")
		}
	}
	return b, nil
}

func activityBody(flags *flag.FlagSet, args []string) (any, error) {
	var b struct {
		Activity string `json:"activity"`
		Tool     string `json:"tool,omitempty"`
		Task     string `json:"task,omitempty"`
	}
	flags.StringVar(&b.Tool, "tool", "", "the tool that it uses")
	flags.StringVar(&b.Task, "task", "", "what it works on")
	var err error
	b.Activity, err = parseOne(flags, args, "activity")
	return b, err
}

// parseOne parses the flags and the only other argument.
func parseOne(flags *flag.FlagSet, args []string, what string) (string, error) {
	rest, err := parseMixed(flags, args)
	if err != nil {
		return "", err
	}
	if len(rest) != 1 {
		return "", fmt.Errorf("one %s is required", what)
	}
	return rest[0], nil
}
