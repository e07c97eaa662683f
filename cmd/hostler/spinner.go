package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
)

// Terminal colors.
const (
	red        = "\x1b[31m"
	green      = "\x1b[32m"
	yellow     = "\x1b[33m"
	resetColor = "\x1b[0m"
)

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// hasColors reports whether w is a terminal that shows colors, and the user has
// not disabled them.
func hasColors(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// spinnerDelay is the time before a spinner appears.
const spinnerDelay = 300 * time.Millisecond

// startSpinner shows text and the elapsed time on a terminal. The returned
// function stops it and clears the line.
func startSpinner(w io.Writer, text string) (stop func()) {
	return startProgress(w, func() string { return text })
}

// startProgress is startSpinner for a text that changes. It is called by another
// goroutine.
func startProgress(w io.Writer, text func() string) (stop func()) {
	if !hasColors(w) {
		return func() {}
	}
	end := make(chan struct{})
	var ended sync.WaitGroup
	// It ends when stop is called, which waits for it.
	ended.Go(func() {
		begin := time.Now()
		tick := time.NewTicker(spinnerDelay)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
				fmt.Fprintf(w, "\r%c %s %s ", `|/-\`[n%4], text(), time.Since(begin).Round(100*time.Millisecond))
			case <-end:
				fmt.Fprint(w, "\r\x1b[K")
				return
			}
		}
	})
	return func() {
		close(end)
		ended.Wait()
	}
}
