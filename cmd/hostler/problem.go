package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// commandProblem is an error as -o json and -o yaml print it: the server's problem,
// if it is one, and what the command makes of it.
type commandProblem struct {
	Error      string        `json:"error"` // as it is printed for people
	Hint       string        `json:"hint,omitempty"`
	ExitStatus int           `json:"exit_status"`
	Problem    *client.Error `json:"problem,omitempty"` // of the server
}

// errorFormat returns the output format of the command that failed: json, yaml or
// table. An error in its flags may be before or after -o.
func errorFormat(cmd *cobra.Command, args []string) string {
	if cmd == nil {
		return "table"
	}
	f := cmd.Flags().Lookup("output")
	if f == nil {
		return "table"
	}
	if f.Changed {
		return f.Value.String()
	}
	for i, arg := range args {
		switch {
		case arg == "--":
			return "table"
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			return args[i+1]
		}
		for _, prefix := range []string{"--output=", "-o=", "-o"} {
			if format, ok := strings.CutPrefix(arg, prefix); ok && format != "" {
				return format
			}
		}
	}
	return "table"
}

// reportProblem prints an error in a format on the standard error, so that it is
// never taken for the result, and returns the exit code.
func reportProblem(errOut io.Writer, err error, format string) int {
	if format != "json" && format != "yaml" || err == nil {
		return reportError(errOut, err)
	}
	code, text, hint := classify(err)
	if text == "" {
		return code // it was printed
	}
	p := commandProblem{Error: strings.Join(strings.Fields(text), " "), Hint: hint, ExitStatus: code}
	if e, ok := errors.AsType[*client.Error](err); ok {
		p.Problem = e
	}
	safe := sanitizeFor(errOut, isTerminal(errOut))
	if format == "yaml" {
		err = errors.Join(printYAML(safe, p), safe.Close())
	} else {
		e := json.NewEncoder(safe)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = errors.Join(e.Encode(p), safe.Close())
	}
	if err != nil {
		return exitFailure // the standard error is closed: there is nowhere to report it
	}
	return code
}
