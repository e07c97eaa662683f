package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/stretchr/testify/require"
)

// pipeStream is one end of a pair of pipes.
type pipeStream struct {
	io.Reader
	io.Writer
}

// scanOf is how a test scans.
type scanOf struct {
	live  bool
	owner treeOwner
	reads func(tree.Entry) bool // which files are read; nil for none
	next  func(batch []tree.Entry)
}

func readsAll(e tree.Entry) bool { return e.Kind == tree.File }

// scanned is the result of a scan.
type scanned struct {
	entries []tree.Entry
	read    map[string]tree.Entry // as they were opened
	content map[string]string
	holes   map[string]int64
}

// scanAll scans a directory with the program in this process.
func scanAll(t testing.TB, dir string, o scanOf) scanned {
	t.Helper()
	got, err := scanInto(t, dir, o)
	require.NoError(t, err)
	return got
}

func scanInto(t testing.TB, dir string, o scanOf) (scanned, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	fromServer, toProgram := io.Pipe()
	fromProgram, toServer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := scanTree(root, o.owner, o.live, fromServer, toServer)
		toServer.CloseWithError(err)
		done <- err
	}()
	got := scanned{read: map[string]tree.Entry{}, content: map[string]string{}, holes: map[string]int64{}}
	err = got.scan(tree.NewScanReader(pipeStream{fromProgram, toProgram}), o)
	toProgram.Close()
	fromProgram.Close()
	if programErr := <-done; err == nil {
		require.NoError(t, programErr)
	}
	return got, err
}

func (s *scanned) scan(from *tree.ScanReader, o scanOf) error {
	for {
		batch, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.entries = append(s.entries, batch...)
		if o.next != nil {
			o.next(batch)
		}
		var wanted []int
		for i, e := range batch {
			if o.reads != nil && o.reads(e) {
				wanted = append(wanted, i)
			}
		}
		err = from.Read(wanted, func(_ int, as tree.Entry, content tree.Content) error {
			text, holes, err := readContent(content)
			s.read[as.Path], s.content[as.Path], s.holes[as.Path] = as, text, holes
			return err
		})
		if err != nil {
			return err
		}
	}
}

// readContent returns the content without its holes, and their sum.
func readContent(content tree.Content) (text string, holes int64, err error) {
	for {
		data, hole, err := content.Next()
		if errors.Is(err, io.EOF) {
			return text, holes, nil
		}
		if err != nil {
			return text, holes, err
		}
		text, holes = text+string(data), holes+hole
	}
}

// writeTest is the server's end of a write whose program runs in this process.
type writeTest struct {
	*tree.Sender
	toProgram *io.PipeWriter
	stamps    []tree.Stamp
	received  chan error
	done      chan error
}

func newWriteTest(t testing.TB, dir string) *writeTest {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	fromServer, toProgram := io.Pipe()
	fromProgram, toServer := io.Pipe()
	w := &writeTest{
		Sender: tree.NewSender(pipeStream{fromProgram, toProgram}), toProgram: toProgram,
		received: make(chan error, 1), done: make(chan error, 1),
	}
	go func() {
		defer root.Close()
		err := newTreeWriter(root, identity{uid: os.Geteuid(), gid: os.Getegid()}).run(fromServer, toServer)
		toServer.CloseWithError(err)
		fromServer.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		w.done <- err
	}()
	go func() {
		for {
			stamps, err := w.Stamps()
			if err != nil {
				w.received <- err
				return
			}
			w.stamps = append(w.stamps, stamps...)
		}
	}()
	return w
}

// close ends the tree and returns the error of the program.
func (w *writeTest) close() error {
	endErr := w.End()
	w.toProgram.Close()
	err, receiveErr := <-w.done, <-w.received
	if err == nil && !errors.Is(receiveErr, io.EOF) {
		err = receiveErr
	}
	return cmp.Or(err, endErr)
}
