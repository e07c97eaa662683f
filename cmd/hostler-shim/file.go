package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// The limits of a process that works on files.
const (
	// fileIdleTimeout is how long its pipes may be blocked. The server ends it
	// when it is no longer needed, unless the server was killed.
	fileIdleTimeout = 5 * time.Minute
	// workingInterval is how often it reports that it works on what takes long.
	workingInterval = 5 * time.Second
	// maxFileDetail bounds the detail of a result, in bytes.
	maxFileDetail = 512
)

// fileWorker is a process that works on files with the rights of the container's
// user, for the server.
type fileWorker struct {
	request shim.FileRequest
	place   filePlace
	in      *shim.FileContent
	out     *shim.FileWriter
	flush   func() error // writes what out has buffered
	idle    *time.Timer  // ends the process
	written time.Time    // when the last frame was written

	mu      sync.Mutex // guards cleanup
	cleanup func()     // removes what must not be left behind
}

// fileOps are the operations.
var fileOps = map[shim.FileOp]func(w *fileWorker) error{
	shim.FileStat:   (*fileWorker).stat,
	shim.FileList:   (*fileWorker).list,
	shim.FileRead:   (*fileWorker).read,
	shim.FileWrite:  (*fileWorker).write,
	shim.FileRemove: (*fileWorker).remove,
	shim.FileTar:    (*fileWorker).tar,
	shim.FileUntar:  (*fileWorker).untar,
}

// runFile works on a file for the server. See shim.FileCommand.
//
//	hostler _file OP REQUEST
func runFile(args []string, stdin io.Reader, stdout io.Writer) int {
	if len(args) != 2 {
		return askUsage
	}
	op, ok := fileOps[shim.FileOp(args[0])]
	w := &fileWorker{}
	if !ok || json.Unmarshal([]byte(args[1]), &w.request) != nil {
		return askUsage
	}
	w.idle = time.AfterFunc(fileIdleTimeout, w.abort)
	defer w.idle.Stop()
	w.in = &shim.FileContent{Frames: shim.NewFileReader(idleReader{stdin, w.idle})}
	buffered := bufio.NewWriterSize(idleWriter{stdout, w.idle}, copyBufferSize)
	w.out, w.flush = shim.NewFileWriter(buffered), buffered.Flush
	defer w.abortOnSignal()()
	result := fileResult(w.run(op))
	if err := errors.Join(w.out.JSON(shim.FileEnd, result), w.flush()); err != nil || result.Reason != "" {
		return exitFailed
	}
	return 0
}

func (w *fileWorker) run(op func(*fileWorker) error) error {
	place, err := newFilePlace(w.request)
	if err != nil {
		return err
	}
	w.place = place
	w.written = time.Now()
	return op(w)
}

// abortOnSignal removes what is incomplete when the server ends the process. The
// caller calls the result.
func (w *fileWorker) abortOnSignal() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM)
	go func() { // ends with stop
		if _, ok := <-signals; ok {
			w.abort()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

func (w *fileWorker) abort() {
	w.cleanUp()
	os.Exit(exitFailed)
}

// cleanUp removes what is incomplete, if there is anything.
func (w *fileWorker) cleanUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cleanup != nil {
		w.cleanup()
	}
	w.cleanup = nil
}

// create creates what is incomplete, and sets its cleanup. An abort at that moment
// waits for it.
func (w *fileWorker) create(f func() error, cleanup func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := f()
	if err == nil {
		w.cleanup = cleanup
	}
	return err
}

// dropCleanup forgets the cleanup, when all is complete.
func (w *fileWorker) dropCleanup() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleanup = nil
}

// working reports from time to time that the process is not stopped. Work that
// prints nothing for long calls it.
func (w *fileWorker) working() error {
	if time.Since(w.written) < workingInterval {
		return nil
	}
	w.written = time.Now()
	return errors.Join(w.out.Frame(shim.FileWorking, nil), w.flush())
}

// idleReader and idleWriter start the timer again before each operation.
type (
	idleReader struct {
		r     io.Reader
		timer *time.Timer
	}
	idleWriter struct {
		w     io.Writer
		timer *time.Timer
	}
)

func (r idleReader) Read(p []byte) (int, error) {
	r.timer.Reset(fileIdleTimeout)
	return r.r.Read(p)
}

func (w idleWriter) Write(p []byte) (int, error) {
	w.timer.Reset(fileIdleTimeout)
	return w.w.Write(p)
}

// fileFault is an error with a reason of its own.
type fileFault shim.FileResult

func (f fileFault) Error() string { return f.Detail }

func fileErrorf(reason runtime.FileReason, detail string) error {
	return fileFault{Reason: reason, Detail: detail}
}

// errnoReasons are the reasons of the kernel's errors. Others are
// runtime.FileOtherReason.
var errnoReasons = []struct {
	errno  unix.Errno
	reason runtime.FileReason
}{
	{unix.ENOENT, runtime.FileNotFound},
	{unix.EACCES, runtime.FileDenied},
	{unix.EPERM, runtime.FileDenied},
	{unix.EROFS, runtime.FileReadOnly},
	{unix.ENOSPC, runtime.FileNoSpace},
	{unix.EDQUOT, runtime.FileNoSpace},
	{unix.EFBIG, runtime.FileNoSpace},
	{unix.ENOTDIR, runtime.FileNotDir},
	{unix.EISDIR, runtime.FileNotRegular},
	{unix.ENXIO, runtime.FileNotRegular},
	{unix.ENODEV, runtime.FileNotRegular},
	{unix.ENOTEMPTY, runtime.FileNotEmpty},
	{unix.EEXIST, runtime.FileNotEmpty}, // as rmdir and rename may have it for ENOTEMPTY
	{unix.ENAMETOOLONG, runtime.FileInvalid},
	{unix.ELOOP, runtime.FileInvalid},
	{unix.EINVAL, runtime.FileInvalid},
}

// fileResult returns how an operation ended.
func fileResult(err error) shim.FileResult {
	if err == nil {
		return shim.FileResult{}
	}
	result := shim.FileResult{Reason: runtime.FileOtherReason, Detail: err.Error()}
	var fault fileFault
	var errno unix.Errno
	switch {
	case errors.As(err, &fault):
		result.Reason = fault.Reason
	case errors.Is(err, runtime.ErrBadArchive):
		result.Reason = shim.FileBadArchive
	case errors.As(err, &errno):
		if _, ok := errors.AsType[*fs.PathError](err); ok { // it has the path on this machine
			result.Detail = errno.Error()
		}
		for _, r := range errnoReasons {
			if errno == r.errno {
				result.Reason = r.reason
			}
		}
	}
	result.Detail = strings.ToValidUTF8(result.Detail[:min(len(result.Detail), maxFileDetail)], "�")
	return result
}
