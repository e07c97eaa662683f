// Command hostler is Hostler: the server, and its command line client. Each
// command is a file.
//
// A command takes its context, arguments and streams from cobra. It reports an
// error in one line with a hint, and exits with a code for the kind of error
// (exit.go). Only this package wires the others.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs one command and returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	return reportProblem(errOut, err, errorFormat(cmd, args))
}
