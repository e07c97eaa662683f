package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
)

// Colours of a terminal.
const (
	red         = "\x1b[31m"
	green       = "\x1b[32m"
	yellow      = "\x1b[33m"
	resetColour = "\x1b[0m"
)

// isTerminal says whether people read w as it is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// hasColours says whether w shows colours and wants them.
func hasColours(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// spinnerDelay is how long a command may take without a word.
const spinnerDelay = 300 * time.Millisecond

// startSpinner shows on a terminal that something goes on, and for how long. The
// function that it returns ends it and takes the line away.
func startSpinner(w io.Writer, text string) (stop func()) {
	if !hasColours(w) {
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
				fmt.Fprintf(w, "\r%c %s %s ", `|/-\`[n%4], text, time.Since(begin).Round(100*time.Millisecond))
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
