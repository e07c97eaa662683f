package tree

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever a program sends, the server gets entries in order, below the directory and
// within the limits, or an error.
func FuzzScanReader(f *testing.F) {
	var b bytes.Buffer
	w := NewScanWriter(bytes.NewReader(bytes.Repeat(message(frameWant, []byte{1}), 3)), &b)
	_ = programScans(w, []Entry{testFile("a", 10), testFile("h", 5)}, 1)
	f.Add(b.Bytes())
	f.Add(encode(wholeTree()))
	f.Add(append(encode([]Entry{testDir("a"), testLink("a/b", "c")}), message(frameEnd, nil)...))
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := NewScanReader(fromBytes(sent))
		last := ""
		for {
			batch, err := s.Next()
			if err != nil {
				require.True(t, errors.Is(err, ErrMalformed) || errors.Is(err, io.EOF), "%v", err)
				return
			}
			require.LessOrEqual(t, len(batch), MaxBatch)
			for _, e := range batch {
				require.NoError(t, e.Check())
				require.Less(t, Compare(last, e.Path), 0)
				last = e.Path
			}
			if batch[0].Kind != File {
				continue
			}
			_ = s.Read([]int{0}, func(_ int, as Entry, content Content) error {
				require.NoError(t, as.Check())
				left := as.Size
				for {
					data, hole, err := content.Next()
					if errors.Is(err, io.EOF) {
						require.Zero(t, left)
						return nil
					}
					if err != nil {
						return err
					}
					require.Positive(t, int64(len(data))+hole)
					left -= int64(len(data)) + hole
				}
			})
		}
	})
}

// Whatever a server sends, the program gets entries in order and below the directory,
// or an error.
func FuzzReceiver(f *testing.F) {
	var b bytes.Buffer
	w := NewSender(stream{bytes.NewReader(nil), &b})
	_ = errors.Join(w.Create(testFile("a", 10)), w.Hole(10), w.Create(testDir("b")), w.Remove("b/c"), w.End())
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := NewReceiver(bytes.NewReader(sent), io.Discard)
		last := ""
		for {
			m, err := r.Next()
			if err != nil {
				require.True(t, errors.Is(err, ErrMalformed) || errors.Is(err, io.EOF), "%v", err)
				return
			}
			require.True(t, isPath(m.Path))
			require.Less(t, Compare(last, m.Path), 0)
			if last = m.Path; !m.IsRemoved {
				require.NoError(t, m.Check())
			}
		}
	})
}

// Whatever a program reports, there are no more stamps than files.
func FuzzStamps(f *testing.F) {
	f.Add(append(message(frameStamps, appendStamp(nil, Stamp{1, 2})), message(frameEnd, nil)...))
	f.Fuzz(func(t *testing.T, sent []byte) {
		w := NewSender(fromBytes(sent))
		require.NoError(t, errors.Join(w.Create(testFile("a", 0)), w.Create(testFile("b", 0))))
		got := 0
		for {
			stamps, err := w.Stamps()
			if err != nil {
				require.True(t, errors.Is(err, ErrMalformed) || errors.Is(err, io.EOF), "%v", err)
				require.True(t, !errors.Is(err, io.EOF) || got == 2)
				return
			}
			got += len(stamps)
			require.LessOrEqual(t, got, 2)
		}
	})
}
