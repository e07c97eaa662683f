package tree

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// A write arrives as it was sent, and the stamps return in order.
func TestWriteRoundTrip(t *testing.T) {
	t.Parallel()
	all := wholeTree()
	fromServer, toProgram := io.Pipe()
	fromProgram, toServer := io.Pipe()
	var got []Message
	var content []int64
	done := make(chan error, 1)
	go func() {
		r := NewReceiver(fromServer, toServer)
		err := r.Ready()
		for err == nil {
			var m Message
			if m, err = r.Next(); err != nil {
				break
			}
			got = append(got, m)
			if m.Kind == File {
				size := int64(0)
				for {
					data, hole, err := r.Content().Next()
					if err != nil {
						break
					}
					size += int64(len(data)) + hole
				}
				content = append(content, size)
				err = r.Stamp(Stamp{Inode: uint64(len(got))})
			}
		}
		if errors.Is(err, io.EOF) {
			err = r.End()
		}
		toServer.CloseWithError(err)
		done <- err
	}()
	w := NewSender(stream{fromProgram, toProgram})
	var stamps []Stamp
	received := make(chan error, 1)
	go func() {
		for {
			next, err := w.Stamps()
			if err != nil {
				received <- err
				return
			}
			stamps = append(stamps, next...)
		}
	}()
	for _, e := range all {
		require.NoError(t, w.Create(e))
		if e.Size > 0 {
			require.NoError(t, w.Hole(5))
			_, err := w.Write(make([]byte, e.Size-5))
			require.NoError(t, err)
		}
	}
	require.NoError(t, errors.Join(w.Remove("i"), w.Create(testDir("i/j")), w.End()))
	require.NoError(t, <-done)
	require.ErrorIs(t, <-received, io.EOF)
	require.Len(t, got, len(all)+2)
	for i, e := range all {
		e.Stamp = Stamp{}
		require.Equal(t, e, got[i].Entry)
	}
	require.Equal(t, Message{Entry: Entry{Path: "i"}, IsRemoved: true}, got[len(all)])
	require.Equal(t, []int64{0, 3*MaxData + 5, 10}, content)
	files := uint64(len(all) - 4)
	require.Equal(t, []Stamp{{Inode: files + 1}, {Inode: files + 2}, {Inode: files + 4}}, stamps)
}

// A file has the size of its entry, and a tree does not end before it is complete.
func TestSenderMisuse(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(w *Sender) error{
		"too much":  func(w *Sender) error { _, err := w.Write(make([]byte, 11)); return err },
		"hole":      func(w *Sender) error { return w.Hole(11) },
		"negative":  func(w *Sender) error { return w.Hole(-1) },
		"next":      func(w *Sender) error { return w.Create(testFile("b", 0)) },
		"remove":    func(w *Sender) error { return w.Remove("b") },
		"end":       func(w *Sender) error { return w.End() },
		"backwards": func(w *Sender) error { return errors.Join(w.Hole(10), w.Remove("A")) },
		"outside":   func(w *Sender) error { return errors.Join(w.Hole(10), w.Remove("../a")) },
		"below":     func(w *Sender) error { return errors.Join(w.Hole(10), w.Remove("a/b")) },
	} {
		w := NewSender(fromBytes(nil))
		require.NoError(t, w.Create(testFile("a", 10)))
		require.ErrorIs(t, use(w), ErrMalformed, name)
	}
}

// A hostile program does not report more stamps than there are files, nor an end
// without all of them.
func TestBadStamps(t *testing.T) {
	t.Parallel()
	one := appendStamp(nil, Stamp{Inode: 1, ChangeTime: 2})
	for name, b := range map[string][]byte{
		"too many":    message(frameStamps, append(one, one...)),
		"too few":     message(frameEnd, nil),
		"truncated":   message(frameStamps, one[:1]),
		"half":        message(frameStamps, one)[:3],
		"no stamps":   message(frameGone, nil),
		"after":       append(append(message(frameStamps, one), message(frameEnd, nil)...), 0),
		"large":       message(frameStamps, bytes.Repeat(one, maxStamps+1)),
		"never ended": message(frameStamps, one),
	} {
		w := NewSender(fromBytes(b))
		require.NoError(t, w.Create(testFile("a", 0)))
		got, err := 0, error(nil)
		for err == nil {
			var stamps []Stamp
			stamps, err = w.Stamps()
			got += len(stamps)
		}
		require.LessOrEqual(t, got, 1, name)
		require.ErrorIs(t, err, ErrMalformed, name)
	}
}
