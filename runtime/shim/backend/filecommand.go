package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// fileCommand is the running program. What it prints is under the control of a
// tenant.
type fileCommand struct {
	ctx       context.Context //nolint:containedctx // the call that the command belongs to
	programs  filePrograms
	id        string
	fence     int64
	stream    runtime.CommandStream
	stopWatch func() bool // stops watching ctx
	frames    *shim.FileReader
	complete  bool // it has printed its last frame
	closed    bool

	due     atomic.Bool // whether the program should print something or end
	stalled atomic.Bool // whether it has not
	silent  *time.Timer // runs while something is due

	output   []byte // received and not read
	received int64  // the offset of what is not received
	err      error  // returned by every further Read
}

// errStalled is the error for a program that is stopped, or works on a filesystem
// that does not answer.
var errStalled = &runtime.FileError{
	Reason: runtime.FileOtherReason, Detail: "the program in the container that works on the file does not answer",
}

// errForged is the error for output that the program cannot have printed unless a
// process of the tenant controls it.
var errForged = &runtime.FileError{
	Reason: runtime.FileOtherReason, Detail: "the program in the container that works on the file gave an answer that is not valid",
}

// errEndedEarly is the error for a program that a process of the tenant, or the
// kernel, has killed.
var errEndedEarly = &runtime.FileError{
	Reason: runtime.FileOtherReason, Detail: "the program in the container that works on the file was ended",
}

// stall gives up on the program.
func (f *fileCommand) stall() {
	f.stalled.Store(true)
	_ = f.stream.Close()
}

// outputIsDue limits the time until the program prints something.
func (f *fileCommand) outputIsDue() {
	f.due.Store(true)
	f.silent.Reset(f.programs.silence)
}

// Read returns what the program prints. What has been read is acknowledged, and
// makes room for more.
func (f *fileCommand) Read(p []byte) (int, error) {
	for f.err == nil && len(f.output) == 0 {
		f.err = f.receive()
	}
	if len(f.output) == 0 {
		return 0, f.err
	}
	n := copy(p, f.output)
	f.output = f.output[n:]
	return n, nil
}

// receive waits for output.
func (f *fileCommand) receive() error {
	if f.received > 0 {
		if err := f.stream.Acknowledge(f.received); err != nil {
			return f.failure(err)
		}
	}
	if f.due.Load() {
		f.silent.Reset(f.programs.silence)
	}
	out, err := f.stream.Next()
	f.silent.Stop()
	if err != nil {
		return f.failure(err)
	}
	f.received = out.Offset + int64(len(out.Data))
	if !out.Stderr { // there is nothing on stderr, unless it has crashed
		f.output = out.Data
	}
	return nil
}

// failure returns why there is no more output.
func (f *fileCommand) failure(err error) error {
	switch {
	case f.ctx.Err() != nil:
		return context.Cause(f.ctx)
	case f.stalled.Load():
		return errStalled
	case !errors.Is(err, io.EOF):
		return err
	}
	f.closed = true // it has ended
	if _, err := f.stream.Result(); err != nil {
		return err
	}
	return errEndedEarly
}

// next returns the next frame that is not FileWorking. Like all that reads frames,
// it is for one goroutine.
func (f *fileCommand) next() (shim.FileFrame, error) {
	for {
		kind, err := f.frames.Next()
		if err != nil || kind != shim.FileWorking {
			return kind, f.frameError(err)
		}
	}
}

// frameError distinguishes errors of the connection from those of frames.
func (f *fileCommand) frameError(err error) error {
	switch {
	case err == nil:
		return nil
	case f.err != nil:
		return f.err
	}
	return errForged
}

// entries returns the descriptions that the program prints up to its end, at most
// limit.
func (f *fileCommand) entries(limit int) ([]runtime.FileInfo, error) {
	found := make([]runtime.FileInfo, 0, min(limit, 16))
	for {
		kind, err := f.next()
		switch {
		case err != nil:
			return nil, err
		case kind == shim.FileEnd:
			return found, f.result()
		case kind != shim.FileInfo || len(found) == limit:
			return nil, errForged
		}
		info, err := f.entry()
		if err != nil {
			return nil, err
		}
		found = append(found, info)
	}
}

// entry decodes the current frame.
func (f *fileCommand) entry() (runtime.FileInfo, error) {
	var entry shim.FileEntry
	if err := f.frames.JSON(&entry); err != nil {
		return runtime.FileInfo{}, f.frameError(err)
	}
	return newFileInfo(entry)
}

// result decodes the last frame.
func (f *fileCommand) result() error {
	var result shim.FileResult
	if err := f.frames.JSON(&result); err != nil {
		return f.frameError(err)
	}
	f.complete = true
	detail := shownText(result.Detail)
	switch {
	case result.Reason == "":
		return nil
	case result.Reason == shim.FileBadArchive:
		return fmt.Errorf("%w: %s", runtime.ErrBadArchive, detail)
	case !fileReasons[result.Reason]:
		return errForged
	}
	return &runtime.FileError{Reason: result.Reason, Detail: detail}
}

// How long the program may take to exit after it has printed everything, and how
// long the container may take to end it.
const (
	fileExitTimeout = 2 * time.Second
	fileEndTimeout  = 15 * time.Second
)

// close ends the program, unless it has printed its last frame: then it exits at
// once, and close waits for that. It may be called more than once, by one goroutine.
func (f *fileCommand) close() {
	if f.closed {
		return
	}
	if f.complete {
		late := time.AfterFunc(fileExitTimeout, f.stall)
		for f.err == nil {
			f.err = f.receive()
		}
		late.Stop()
	}
	f.silent.Stop()
	f.stopWatch()
	_ = f.stream.Close()
	if !f.closed {
		f.closed = true
		f.end()
	}
}

// end ends the program, whether it was received or not.
func (f *fileCommand) end() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), fileEndTimeout)
	defer cancel()
	// The end of the claim ends it as well.
	_ = f.programs.commands.EndCommand(ctx, f.programs.id, f.id, f.fence)
}

// fileInput is the program's input.
type fileInput struct {
	command *fileCommand
	offset  int64
}

func (in *fileInput) Write(p []byte) (int, error) {
	stalled := time.AfterFunc(in.command.programs.silence, in.command.stall)
	defer stalled.Stop()
	if err := in.command.stream.Input(in.offset, p); err != nil {
		return 0, err
	}
	in.offset += int64(len(p))
	return len(p), nil
}
