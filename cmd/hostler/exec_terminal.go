package main

import (
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/term"

	"github.com/hostler/hostler/client"
)

// isTerminalInput reports whether in is a terminal.
func isTerminalInput(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// makeRaw has a terminal pass each key as it is, until restore is called.
func makeRaw(in io.Reader) (restore func(), err error) {
	f, ok := in.(*os.File)
	if !ok {
		return func() {}, nil
	}
	fd := int(f.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("set up the terminal: %w", err)
	}
	return func() { _ = term.Restore(fd, state) }, nil
}

// terminalSize returns the size of a terminal, or a common one if it has none.
func terminalSize(out io.Writer) *client.TerminalSize {
	size := client.TerminalSize{Rows: 24, Columns: 80}
	if f, ok := out.(*os.File); ok {
		columns, rows, err := term.GetSize(int(f.Fd()))
		if err == nil && rows > 0 && columns > 0 && rows <= math.MaxInt16 && columns <= math.MaxInt16 {
			size = client.TerminalSize{Rows: uint16(rows), Columns: uint16(columns)}
		}
	}
	return &size
}
