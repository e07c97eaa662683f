package shim

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
)

// FillTree implements tree.Trees.FillTree, for a directory that is writable.
func (s *Session) FillTree(ctx context.Context, dir string, fence int64, stamped func([]tree.Stamp)) (tree.Writer, error) {
	t, err := s.startTransfer(ctx, "write", Request{Op: OpWrite, Paths: []string{dir}, Fence: fence, Streams: 1})
	if err != nil {
		return nil, err
	}
	a := &archive{transfer: t}
	// The program confirms that the directory is open. If not, the caller gets the
	// error here.
	if err := a.waitReadable(); err != nil {
		err = a.endError(err)
		a.abort()
		return nil, err
	}
	w := &treeWriter{transfer: t, archive: a, stamped: stamped, received: make(chan struct{})}
	w.sender = tree.NewSender(writeStream{w})
	go w.receive() // ends with the stream, after stamped has returned
	return w, nil
}

// treeWriter is a tree.Writer of a container.
type treeWriter struct {
	*transfer
	archive  *archive
	sender   *tree.Sender
	stamped  func([]tree.Stamp)
	isClosed bool
	sendErr  error // the result of every further call

	received   chan struct{} // closed when the program sends nothing more
	receiveErr error         // why, set before; nil if all is written

	// mu guards the fields below. It is never held during I/O.
	mu        sync.Mutex
	isSent    bool        // the program has to finish
	isWaiting bool        // for the program
	watchdog  *time.Timer // while both
}

// writeStream is the stream of a write. This end may take any time to send a tree,
// so the program need not send stamps in time before the tree has ended.
type writeStream struct{ *treeWriter }

func (s writeStream) Read(p []byte) (int, error) {
	s.watch(func() { s.isWaiting = true })
	err := s.stream.WaitReadable()
	s.watch(func() { s.isWaiting = false })
	if err != nil {
		return 0, s.archive.endError(err)
	}
	return s.stream.Read(p)
}

func (s writeStream) Write(p []byte) (int, error) {
	if err := s.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// watch makes a change of isSent or isWaiting, and starts or stops the timeout for the
// program.
func (w *treeWriter) watch(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	if w.watchdog != nil {
		w.watchdog.Stop()
		w.watchdog = nil
	}
	if w.isSent && w.isWaiting {
		w.watchdog = w.startWatchdog()
	}
}

// receive passes the stamps on.
func (w *treeWriter) receive() {
	defer close(w.received)
	for {
		stamps, err := w.sender.Stamps()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			w.receiveErr = treeError(err)
			w.stream.Reset(w.receiveErr) // so that this end stops sending
			return
		}
		if len(stamps) > 0 && w.stamped != nil {
			w.stamped(stamps)
		}
	}
}

// Create implements tree.Writer.
func (w *treeWriter) Create(e tree.Entry) error {
	return w.send(func() error { return w.sender.Create(e) })
}

// Write implements tree.Writer.
func (w *treeWriter) Write(data []byte) error {
	return w.send(func() error {
		_, err := w.sender.Write(data)
		return err
	})
}

// Hole implements tree.Writer.
func (w *treeWriter) Hole(size int64) error {
	return w.send(func() error { return w.sender.Hole(size) })
}

// Remove implements tree.Writer.
func (w *treeWriter) Remove(path string) error {
	return w.send(func() error { return w.sender.Remove(path) })
}

// send sends a part of the tree, unless an earlier one has failed: the tree would not
// be complete.
func (w *treeWriter) send(part func() error) error {
	if w.sendErr == nil {
		w.sendErr = w.failure(part())
	}
	return w.sendErr
}

// failure returns the error of what could not be sent: why the program has ended, or
// the tree's.
func (w *treeWriter) failure(err error) error {
	if err == nil || errors.Is(err, tree.ErrMalformed) {
		return treeError(err)
	}
	<-w.received // the stream has ended
	if w.receiveErr != nil {
		return w.receiveErr
	}
	return errors.Join(runtime.ErrUnavailable, err) // success before the end of the tree
}

// Close implements tree.Writer.
func (w *treeWriter) Close() error {
	if w.isClosed {
		return w.sendErr
	}
	if err := w.send(w.sender.End); err != nil {
		w.Abort(err)
		return err
	}
	w.watch(func() { w.isSent = true })
	<-w.received
	w.end(w.receiveErr)
	return w.sendErr
}

// Abort implements tree.Writer.
func (w *treeWriter) Abort(cause error) {
	if w.isClosed {
		return
	}
	w.stream.Reset(cause)
	<-w.received
	w.end(cmp.Or(cause, errAbandoned))
}

// end releases the transfer.
func (w *treeWriter) end(err error) {
	w.isClosed, w.sendErr = true, err
	w.abort()
}
