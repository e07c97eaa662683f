package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hostler/hostler/client"
)

// How a log is followed: the server returns its end, and has no places in it.
const (
	logInterval = time.Second
	logWindow   = 1 << 20 // bytes that are read each time
	logMarker   = 4 << 10 // bytes by which the end of what was printed is found again
)

// logFollower finds what a log has beyond what was printed.
type logFollower struct {
	window int    // how many bytes are read of its end each time
	known  []byte // the window that was read last
	whole  bool   // known is the whole log, and not its end
}

// A gap is what may be missing before the text that a logFollower returns.
type gap int

// The gaps.
const (
	noGap    gap = iota
	newLog       // the log began again: the container was wiped
	lostText     // more was printed than the window has
)

// advance returns what was added to the log, from the window that was read now, and
// what may be missing before it.
func (f *logFollower) advance(text []byte) (added []byte, missing gap) {
	before, wasWhole := f.known, f.whole || len(f.known) == 0
	f.known, f.whole = text, len(text) < f.window
	if wasWhole && bytes.HasPrefix(text, before) && (f.whole || len(before) > 0) {
		return text[len(before):], noGap
	}
	marker := before[max(0, len(before)-logMarker):]
	if i := bytes.LastIndex(text, marker); i >= 0 && len(marker) > 0 {
		return text[i+len(marker):], noGap
	}
	if f.whole {
		return text, newLog
	}
	return text, lostText
}

var gapTexts = map[gap]string{
	newLog:   "# the log begins again: the container was wiped",
	lostText: "# lines are missing here: the container prints too much",
}

// followContainer prints the last lines of a container's log, and what is added
// until its main process has ended.
func followContainer(ctx context.Context, out, errOut io.Writer, c *client.Client, id string, tail int, interval time.Duration) error {
	text, err := readLog(ctx, c, id, logWindow)
	if err != nil {
		return err
	}
	f := logFollower{window: logWindow}
	f.advance(text)
	shown := text[max(0, len(text)-defaultLogBytes):]
	if tail > 0 {
		shown = text
	}
	if err := printLog(out, id, []byte(tailLines(string(wholeLines(shown, len(shown) < len(text) || !f.whole)), tail))); err != nil {
		return err
	}
	return poll(ctx, interval, func() (bool, error) {
		box, err := c.Container(ctx, id) // before the log, which then has everything
		if err != nil {
			return false, err
		}
		text, err := readLog(ctx, c, id, logWindow)
		if err != nil {
			return box.State == client.ContainerDestroyed, err
		}
		added, missing := f.advance(text)
		if missing != noGap {
			fmt.Fprintln(errOut, gapTexts[missing])
		}
		return box.State == client.ContainerDestroyed || box.Health == client.Exited, printLog(out, id, added)
	})
}

// runFollower prints the output of the attempts of a run as it comes.
type runFollower struct {
	out, errOut io.Writer
	tail        int
	ended       int  // how many attempts were printed to their end
	begun       bool // the header of the next one was printed
	next        attemptFollower
}

// followRun prints what each attempt of a run prints, until none runs.
func followRun(ctx context.Context, out, errOut io.Writer, c *client.Client, id string, tail int, interval time.Duration) error {
	f := runFollower{out: out, errOut: errOut, tail: tail}
	next := func() (bool, error) {
		attempts, err := c.Run(ctx, id)
		if err != nil {
			return false, err
		}
		return f.print(attempts)
	}
	done, err := next()
	if done || err != nil {
		return err
	}
	return poll(ctx, interval, next)
}

// print prints what is new, and reports whether no attempt runs.
func (f *runFollower) print(attempts []client.Run) (done bool, err error) {
	for ; f.ended < len(attempts); f.ended++ {
		a := attempts[f.ended]
		isRunning := a.State == client.RunRunning
		switch {
		case !isRunning && !f.begun:
			err = printAttempts(f.out, f.errOut, attempts[f.ended:f.ended+1], f.tail)
		case !f.begun:
			f.begun = true
			fmt.Fprintln(f.errOut, attemptHeader(a))
			err = f.printNew(a, f.tail)
		default:
			err = f.printNew(a, 0)
		}
		if isRunning || err != nil {
			return false, err
		}
		if f.begun {
			fmt.Fprintln(f.errOut, attemptHeader(a))
		}
		f.begun, f.next = false, attemptFollower{}
	}
	return true, nil
}

// printNew prints what an attempt has added, of each stream the last lines.
func (f *runFollower) printNew(a client.Run, tail int) error {
	stdout, stderr, lost := f.next.advance(a)
	if lost {
		fmt.Fprintln(f.errOut, "# lines are missing here: the hook prints too much")
	}
	return writeOutput(sanitizeFor(f.out, isTerminal(f.out)), sanitizeFor(f.errOut, isTerminal(f.errOut)),
		tailLines(string(stdout), tail), tailLines(string(stderr), tail))
}

// poll calls next at each interval until it is done, ctx ends, or it fails. A server
// that does not answer for a while is asked again.
func poll(ctx context.Context, interval time.Duration, next func() (done bool, err error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		done, err := next()
		if ctx.Err() != nil {
			return nil
		}
		if done || err != nil && !isTemporary(err) {
			return err
		}
	}
}

// tailLines returns the last n lines of a text; with 0 all of it.
func tailLines(text string, n int) string {
	if n == 0 {
		return text
	}
	return lastLines(text, n)
}

// wholeLines leaves out a first line whose beginning may be cut off, unless there is
// no other.
func wholeLines(text []byte, isCut bool) []byte {
	if i := bytes.IndexByte(text, '\n'); isCut && i >= 0 && i+1 < len(text) {
		return text[i+1:]
	}
	return text
}
