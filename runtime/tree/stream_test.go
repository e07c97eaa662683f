package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stream is one end of a stream whose other end has been recorded.
type stream struct {
	io.Reader
	io.Writer
}

func fromBytes(b []byte) stream { return stream{bytes.NewReader(b), io.Discard} }

var testTime = time.Unix(1_700_000_000, 123_456_789)

func testFile(path string, size int64) Entry {
	return Entry{
		Path: path, Kind: File, Mode: 0o640, Owner: OwnUser, Group: 7, Size: size, ModTime: testTime,
		Stamp: Stamp{Inode: math.MaxUint64, ChangeTime: -5},
	}
}

func testDir(path string) Entry {
	return Entry{Path: path, Kind: Dir, Mode: 0o1755, Owner: math.MaxUint32 - 1, Group: OwnGroup, ModTime: testTime}
}

func testLink(path, target string) Entry {
	return Entry{Path: path, Kind: Link, Target: target, ModTime: time.Unix(minSecond, 0)}
}

// wholeTree has an entry of each kind and the longest names.
func wholeTree() []Entry {
	long := strings.Repeat("n", MaxName)
	deep := "d"
	all := []Entry{testDir("d")}
	for len(deep)+1+MaxName <= MaxPath {
		deep += "/" + long
		all = append(all, testDir(deep))
	}
	return append(all, testFile("e", 0), testFile("f\xff\n", 3*MaxData+5), testLink("g", strings.Repeat("t", MaxTarget)), testFile("h", 10))
}

// programScans sends entries in batches of n, and what is wanted of them.
func programScans(w *ScanWriter, all []Entry, n int) error {
	for len(all) > 0 {
		var b Batch
		for b.Reset(); len(b.Entries) < min(n, len(all)) && b.Add(all[len(b.Entries)]); {
		}
		all = all[len(b.Entries):]
		wanted, err := w.Send(&b)
		if err != nil {
			return err
		}
		for _, i := range wanted {
			e := b.Entries[i]
			if e.Path == "h" {
				if err := w.Gone(); err != nil {
					return err
				}
				continue
			}
			hole := min(e.Size, 5)
			err := errors.Join(w.File(e), w.Hole(hole))
			for left := e.Size - hole; left > 0 && err == nil; {
				n := min(left, 100<<10)
				_, err = w.Write(bytes.Repeat([]byte{'x'}, int(n)))
				left -= n
			}
			if err != nil {
				return err
			}
		}
	}
	return w.End()
}

// A scan returns what the program has sent, in batches of any size.
func TestScanRoundTrip(t *testing.T) {
	t.Parallel()
	all := wholeTree()
	for _, n := range []int{1, 3, MaxBatch} {
		fromServer, toProgram := io.Pipe()
		fromProgram, toServer := io.Pipe()
		done := make(chan error, 1)
		go func() {
			err := programScans(NewScanWriter(fromServer, toServer), all, n)
			toServer.CloseWithError(err)
			done <- err
		}()
		s := NewScanReader(stream{fromProgram, toProgram})
		var got []Entry
		sizes := map[string]int64{}
		for {
			batch, err := s.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			got = append(got, batch...)
			var wanted []int
			for i, e := range batch {
				if e.Kind == File {
					wanted = append(wanted, i)
				}
			}
			if len(wanted) == 0 {
				continue // Next answers the batch
			}
			require.NoError(t, s.Read(wanted, func(i int, as Entry, content Content) error {
				require.Equal(t, batch[i], as)
				sizes[as.Path] = 0
				if as.Path == "e" {
					return nil
				}
				data, hole, err := content.Next()
				require.NoError(t, err)
				require.Empty(t, data)
				require.EqualValues(t, 5, hole)
				data, _, err = content.Next()
				sizes[as.Path] = int64(len(data))
				return err // what is left is skipped
			}))
		}
		require.NoError(t, <-done)
		require.Equal(t, all, got)
		require.Equal(t, map[string]int64{"e": 0, "f\xff\n": 100 << 10}, sizes, "the file that has gone is left out")
	}
}

// A batch is bounded by the number of its entries and by their memory.
func TestBatchLimits(t *testing.T) {
	t.Parallel()
	var b Batch
	for b.Add(testFile(fmt.Sprintf("%05d", len(b.Entries)), 0)) {
	}
	require.Len(t, b.Entries, MaxBatch)
	b.Reset()
	for b.Add(testLink(fmt.Sprintf("%05d", len(b.Entries)), strings.Repeat("t", MaxTarget))) {
	}
	require.Less(t, len(b.Entries), maxBatchSize/MaxTarget)
	s := NewScanReader(fromBytes(encode(b.Entries)))
	batch, err := s.Next()
	require.NoError(t, err)
	require.Equal(t, b.Entries, batch)
}

// encode encodes entries as a batch, whatever they are.
func encode(all []Entry) []byte {
	var payload []byte
	before := ""
	for i := range all {
		payload = appendEntry(payload, before, &all[i])
		before = all[i].Path
	}
	return message(frameBatch, payload)
}

func message(kind frame, payload []byte) []byte {
	var b bytes.Buffer
	w := newWriter(&b)
	_ = w.send(kind, payload)
	_ = w.out.Flush()
	return b.Bytes()
}

// badEntries are entries that no end may send, after a file "a" and a directory "b".
func badEntries() map[string]Entry {
	change := func(e Entry, change func(*Entry)) Entry { change(&e); return e }
	bad := map[string]Entry{
		"kind":           change(testFile("c", 0), func(e *Entry) { e.Kind = 'p' }),
		"setuid":         change(testFile("c", 0), func(e *Entry) { e.Mode = 0o4755 }),
		"mode of a link": change(testLink("c", "t"), func(e *Entry) { e.Mode = 0o777 }),
		"owner -2":       change(testFile("c", 0), func(e *Entry) { e.Owner = -2 }),
		"owner":          change(testFile("c", 0), func(e *Entry) { e.Owner = math.MaxUint32 }),
		"group":          change(testFile("c", 0), func(e *Entry) { e.Group = math.MaxUint32 }),
		"size":           change(testFile("c", 0), func(e *Entry) { e.Size = -1 }),
		"no target":      testLink("c", ""),
		"NUL in target":  testLink("c", "a\x00b"),
		"long target":    testLink("c", strings.Repeat("t", MaxTarget+1)),
		"year":           change(testFile("c", 0), func(e *Entry) { e.ModTime = time.Unix(maxSecond+1, 0) }),
		"below a file":   testFile("a/b", 0),
		"again":          testFile("b", 0),
		"before":         testFile("Z", 0),
	}
	for _, path := range []string{
		"", ".", "..", "/c", "c/", "c//d", "c/./d", "c/../d", "../c", "c\x00", strings.Repeat("n", MaxName+1),
		strings.Repeat("n/", MaxPath/2) + "n",
	} {
		bad[fmt.Sprintf("path %.20q", path)] = testFile(path, 0)
	}
	return bad
}

// What a hostile program lists is an error of the tree, and so is what a server is
// asked to send.
func TestBadEntries(t *testing.T) {
	t.Parallel()
	before := []Entry{testFile("a", 0), testDir("b")}
	for name, e := range badEntries() {
		s := NewScanReader(fromBytes(encode(append(before[:2:2], e))))
		_, err := s.Next()
		require.ErrorIs(t, err, ErrMalformed, name)
		_, again := s.Next()
		require.Equal(t, err, again, name)

		w := NewSender(fromBytes(nil))
		require.NoError(t, errors.Join(w.Create(before[0]), w.Create(before[1])))
		require.ErrorIs(t, w.Create(e), ErrMalformed, name)

		payload := appendEntry(nil, "", &before[0])
		in := bytes.NewBuffer(message(frameCreate, payload))
		in.Write(message(frameCreate, appendEntry(nil, "a", &before[1])))
		in.Write(message(frameCreate, appendEntry(nil, "b", &e)))
		r := NewReceiver(in, io.Discard)
		for range before {
			_, err := r.Next()
			require.NoError(t, err)
		}
		_, err = r.Next()
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	_, err := NewScanReader(fromBytes(encode([]Entry{testDir("a"), testFile("b/c", 0)}))).Next()
	require.ErrorIs(t, err, ErrMalformed, "a file whose directory is not listed")
}

// What no intact end sends is an error.
func TestBadScans(t *testing.T) {
	t.Parallel()
	batch := encode([]Entry{testFile("a", 10), testDir("b")})
	attributes := testFile("a", 10)
	opened := message(frameFile, appendAttributes(nil, &attributes))
	data := func(n int) []byte { return message(frameData, make([]byte, n)) }
	hole := []byte{byte(frameHole), 5}
	many := make([]Entry, MaxBatch+1)
	for i := range many {
		many[i] = testFile(fmt.Sprintf("%05d", i), 0)
	}
	long := slices.DeleteFunc(wholeTree(), func(e Entry) bool { return e.Kind != Dir })
	deep := long[len(long)-2].Path
	for i := range 200 { // the encoded paths are short
		long = append(long, testFile(fmt.Sprintf("%s/z%05d", deep, i), 0))
	}
	require.Less(t, len(encode(long)), maxBatchSize)
	for _, batch := range [][]Entry{many, long} {
		_, err := NewScanReader(fromBytes(encode(batch))).Next()
		require.ErrorIs(t, err, ErrMalformed)
	}
	for name, parts := range map[string][][]byte{
		"nothing":                     {},
		"unknown message":             {{'?', 0}},
		"number without end":          {{byte(frameBatch), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		"truncated message":           {batch[:len(batch)-1]},
		"empty batch":                 {message(frameBatch, nil)},
		"large message":               {{byte(frameBatch), 0xff, 0xff, 0xff, 0x7f}},
		"truncated entry":             {message(frameBatch, batch[3:len(batch)-1])},
		"stamps":                      {message(frameStamps, nil)},
		"end with bytes":              {{byte(frameEnd), 1, 0}},
		"bytes after the end":         {message(frameEnd, nil), {0}},
		"no file":                     {batch, batch},
		"file with more attributes":   {batch, message(frameFile, append(appendAttributes(nil, &attributes), 0))},
		"file without all attributes": {batch, message(frameFile, []byte{1})},
		"no content":                  {batch, opened},
		"too much content":            {batch, opened, data(11)},
		"too large a hole":            {batch, opened, hole, data(1), hole},
		"empty extent":                {batch, opened, data(0)},
		"empty hole":                  {batch, opened, {byte(frameHole), 0}},
		"end within a file":           {batch, opened, hole, message(frameEnd, nil)},
		"truncated extent":            {batch, opened, data(10)[:5]},
		"no end":                      {batch, opened, data(10)},
		"the same again":              {batch, opened, data(10), batch},
	} {
		for _, skips := range []bool{false, true} {
			s := NewScanReader(fromBytes(bytes.Join(parts, nil)))
			err := scanAll(s, skips)
			require.ErrorIs(t, err, ErrMalformed, name)
			require.NotErrorIs(t, err, io.EOF, name)
		}
	}
}

// scanAll reads the first file of each batch.
func scanAll(s *ScanReader, skips bool) error {
	for {
		batch, err := s.Next()
		if err != nil {
			return err
		}
		if batch[0].Kind != File {
			continue
		}
		if err := s.Read([]int{0}, func(_ int, as Entry, content Content) error {
			size := int64(0)
			for !skips {
				data, hole, err := content.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return err
				}
				if size += int64(len(data)) + hole; size > as.Size {
					return errors.New("more than its size")
				}
			}
			if !skips && size != as.Size {
				return fmt.Errorf("content of %d bytes, want %d", size, as.Size)
			}
			return nil
		}); err != nil {
			return err
		}
	}
}

// A scan is read in order, once, and only files are.
func TestScanMisuse(t *testing.T) {
	t.Parallel()
	batch := encode([]Entry{testFile("a", 10), testDir("b"), testFile("c", 0)})
	for _, indexes := range [][]int{{1}, {3}, {-1}, {0, 0}, {2, 0}} {
		s := NewScanReader(fromBytes(batch))
		_, err := s.Next()
		require.NoError(t, err)
		require.ErrorContains(t, s.Read(indexes, nil), "index", "%v", indexes)
		_, err = s.Next()
		require.Error(t, err, "%v", indexes)
	}
	require.ErrorContains(t, NewScanReader(fromBytes(batch)).Read(nil, nil), "not after Next")
	for _, payload := range [][]byte{{0}, {1, 1}, {4}, {0x80}, {1, 2, 1}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		var b Batch
		for _, e := range []Entry{testFile("a", 10), testDir("b"), testFile("c", 0)} {
			b.Add(e)
		}
		w := NewScanWriter(bytes.NewReader(message(frameWant, payload)), io.Discard)
		_, err := w.Send(&b)
		require.ErrorIs(t, err, ErrMalformed, "%v", payload)
	}
}

// A time that no entry may have becomes the closest one.
func TestClampTime(t *testing.T) {
	t.Parallel()
	for _, second := range []int64{math.MinInt64, minSecond - 1, 0, maxSecond + 1, math.MaxInt64} {
		e := testFile("a", 0)
		e.ModTime = ClampTime(second, 999_999_999)
		require.NoError(t, e.Check(), second)
	}
	require.True(t, testTime.Equal(ClampTime(testTime.Unix(), int64(testTime.Nanosecond()))))
}
