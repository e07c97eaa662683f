package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hostler/hostler/runtime"
)

// askNotFound is the exit code for a key without a value.
const askNotFound = 3

// memoryCommands are the commands of the claim's memory.
var memoryCommands = []askCommand{
	{
		name: "memory put", args: "KEY [--data JSON] [--level L] [--if-version N]", request: "memory.put",
		short: "put a JSON value, or what stdin has, under a key", body: memoryPutBody,
		text: func(answer []byte) string {
			var v struct {
				Key     string
				Version int64
			}
			_ = json.Unmarshal(answer, &v) // it is the server's
			return fmt.Sprintf("%s has version %d", v.Key, v.Version)
		},
	},
	{
		name: "memory get", args: "KEY [--level L]", request: "memory.get",
		short: "print the value under a key", body: memoryKeyBody, exits: memoryExits,
		text: func(answer []byte) string {
			var v struct{ Value json.RawMessage }
			_ = json.Unmarshal(answer, &v)
			return string(v.Value)
		},
	},
	{
		name: "memory delete", args: "KEY [--level L] [--if-version N]", request: "memory.delete",
		short: "delete the value under a key", body: memoryDeleteBody,
		text: func(answer []byte) string {
			var v struct{ Deleted bool }
			_ = json.Unmarshal(answer, &v)
			if !v.Deleted {
				return "there was no value"
			}
			return "deleted"
		},
	},
	{
		name: "memory list", args: "[--level L] [--prefix P] [--after KEY] [--limit N]", request: "memory.list",
		short: "print keys, a line each; -o json has next, for --after", body: memoryListBody,
		text: func(answer []byte) string {
			var page struct{ Items []struct{ Key string } }
			_ = json.Unmarshal(answer, &page)
			keys := make([]string, len(page.Items))
			for i, item := range page.Items {
				keys[i] = item.Key
			}
			return strings.Join(keys, "\n")
		},
	},
}

var memoryExits = map[runtime.ProblemCode]int{"memory_not_found": askNotFound}

// memoryBody is the body of all of them.
type memoryBody struct {
	Level     string          `json:"level,omitempty"`
	Key       string          `json:"key,omitempty"`
	Value     json.RawMessage `json:"value,omitempty"`
	IfVersion *int64          `json:"if_version,omitempty"`
	Prefix    string          `json:"prefix,omitempty"`
	After     string          `json:"after,omitempty"`
	Limit     int             `json:"limit,omitempty"`
}

// maxListed is how many keys a page has at most: a response with more of the
// longest ones could be too large.
const maxListed = 50

// parseKey parses the arguments of a command that has a key, in any order with
// its flags.
func (b *memoryBody) parseKey(flags *flag.FlagSet, args []string) error {
	b.levelFlag(flags)
	var err error
	b.Key, err = parseOne(flags, args, "key")
	return err
}

func (b *memoryBody) levelFlag(flags *flag.FlagSet) {
	flags.StringVar(&b.Level, "level", "", "whom the value belongs to: claim (default), tenant or workload")
}

func (b *memoryBody) versionFlag(flags *flag.FlagSet) {
	flags.Func("if-version", "only if the value has this version; 0: only if there is none", func(text string) error {
		var n int64
		if _, err := fmt.Sscanf(text, "%d", &n); err != nil || fmt.Sprint(n) != text {
			return errors.New("it is not a number")
		}
		b.IfVersion = &n
		return nil
	})
}

// parseMixed parses flags before, between and after the other arguments, which it
// returns.
func parseMixed(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, flags.Arg(0)), flags.Args()[1:]
	}
}

func memoryPutBody(flags *flag.FlagSet, args []string) (any, error) {
	var b memoryBody
	b.versionFlag(flags)
	data := dataFlag(flags, "the value, as JSON (default read from stdin)")
	if err := b.parseKey(flags, args); err != nil {
		return nil, err
	}
	value, err := data()
	b.Value = value
	return b, err
}

// dataFlag declares the flag --data. The function that it returns is called after
// the flags are parsed: it returns the value, or that of stdin without the flag.
func dataFlag(flags *flag.FlagSet, usage string) func() (json.RawMessage, error) {
	text := flags.String("data", "", usage)
	return func() (json.RawMessage, error) {
		value, given := []byte(*text), false
		flags.Visit(func(f *flag.Flag) { given = given || f.Name == "data" })
		if !given {
			var err error
			if value, err = io.ReadAll(io.LimitReader(os.Stdin, runtime.MaxRequestBody+1)); err != nil {
				return nil, fmt.Errorf("read the value: %w", err)
			}
		}
		if !json.Valid(value) {
			return nil, errors.New("the value is not JSON")
		}
		return value, nil
	}
}

func memoryKeyBody(flags *flag.FlagSet, args []string) (any, error) {
	var b memoryBody
	err := b.parseKey(flags, args)
	return b, err
}

func memoryDeleteBody(flags *flag.FlagSet, args []string) (any, error) {
	var b memoryBody
	b.versionFlag(flags)
	err := b.parseKey(flags, args)
	return b, err
}

func memoryListBody(flags *flag.FlagSet, args []string) (any, error) {
	var b memoryBody
	b.levelFlag(flags)
	flags.StringVar(&b.Prefix, "prefix", "", "only keys that begin with it")
	flags.StringVar(&b.After, "after", "", "only keys after this one")
	flags.IntVar(&b.Limit, "limit", maxListed, "at most this many, up to 50")
	rest, err := parseMixed(flags, args)
	switch {
	case err != nil:
		return nil, err
	case len(rest) > 0:
		return nil, fmt.Errorf("unexpected argument %q", rest[0])
	case b.Limit < 1 || b.Limit > maxListed:
		return nil, fmt.Errorf("a limit is 1 to %d", maxListed)
	}
	return b, nil
}
