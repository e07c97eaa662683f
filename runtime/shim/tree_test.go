package shim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
)

func treeFile(path string, size int) tree.Entry {
	return tree.Entry{Path: path, Kind: tree.File, Mode: 0o600, Owner: tree.OwnUser, Group: tree.OwnGroup, Size: int64(size), ModTime: time.Unix(1, 2)}
}

// lists sends two batches, with the content of the file that is wanted of the second
// one, and then runs then.
func lists(part int, then func(s *Stream) error) programFunc {
	return func(in *Incoming, s *Stream) error {
		if err := in.SendProgress(ProgressStarted); err != nil {
			return err
		}
		w := tree.NewScanWriter(s, s)
		for _, e := range []tree.Entry{treeFile("a", 5), treeFile("b", len(content))} {
			var b tree.Batch
			b.Add(e)
			wanted, err := w.Send(&b)
			if err != nil {
				return err
			}
			if len(wanted) == 0 {
				continue
			}
			if err := w.File(e); err != nil {
				return err
			}
			if _, err := w.Write(content[:part]); err != nil {
				return err
			}
			if part < len(content) {
				return then(s)
			}
		}
		if err := w.End(); err != nil {
			return err
		}
		return then(s)
	}
}

// sendsBytes sends what is no tree.
func sendsBytes(b string, then func(s *Stream) error) programFunc {
	return func(in *Incoming, s *Stream) error {
		if err := in.SendProgress(ProgressStarted); err != nil {
			return err
		}
		if _, err := s.Write([]byte(b)); err != nil {
			return err
		}
		return then(s)
	}
}

// endsTwice sends bytes after the end of a tree.
func sendsMore(s *Stream) error {
	_, err := s.Write([]byte("E"))
	return errors.Join(err, s.CloseWrite())
}

// scanTree lists a tree, and reads the file "b".
func scanTree(ctx context.Context, s *Session) error {
	scan, err := s.ScanTree(ctx, "/data", tree.ScanOptions{})
	if err != nil {
		return err
	}
	defer scan.Close()
	for {
		batch, err := scan.Next()
		if errors.Is(err, io.EOF) {
			_, again := scan.Next()
			return errors.Join(again, scan.Close())
		}
		if err != nil {
			return err
		}
		var wanted []int
		if batch[0].Path == "b" {
			wanted = []int{0}
		}
		err = scan.Read(wanted, func(_ int, _ tree.Entry, c tree.Content) error {
			var got []byte
			for {
				data, hole, err := c.Next()
				if got = append(got, data...); err != nil || hole > 0 {
					return errors.Join(noEOF(err), different(got))
				}
			}
		})
		if err != nil {
			return err
		}
	}
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func different(got []byte) error {
	if !bytes.HasPrefix(content, got) {
		return errors.New("different bytes")
	}
	return nil
}

// A list is complete only when the program has sent its end and a successful
// response. Everything else is an error that identifies the cause.
func TestScanTree(t *testing.T) {
	t.Parallel()
	unavailable, part, all := runtime.ErrUnavailable, Window+5, len(content)
	for name, c := range map[string]struct {
		boots    string
		programs []programFunc
		engine   error
		err, not error
	}{
		"complete":                     {"a", []programFunc{lists(all, closesWrite)}, nil, io.EOF, nil},
		"empty":                        {"a", []programFunc{sendsBytes("E\x00", closesWrite)}, nil, io.EOF, nil},
		"the directory is not there":   {"a", []programFunc{failsFileNotFound}, nil, runtime.ErrFileNotFound, io.EOF},
		"fails halfway":                {"a", []programFunc{lists(part, failsBadArchive)}, nil, runtime.ErrBadArchive, io.EOF},
		"fails at the end":             {"a", []programFunc{lists(all, failsAfterEnd)}, nil, runtime.ErrBadArchive, io.EOF},
		"ends halfway":                 {"a", []programFunc{lists(part, closesWrite)}, nil, runtime.ErrBadArchive, io.EOF},
		"truncated":                    {"a", []programFunc{lists(part, truncates)}, nil, unavailable, runtime.ErrTainted},
		"more after the end":           {"a", []programFunc{lists(all, sendsMore)}, nil, runtime.ErrBadArchive, io.EOF},
		"no tree":                      {"a", []programFunc{sendsBytes("tree", closesWrite)}, nil, runtime.ErrBadArchive, io.EOF},
		"lost before it starts":        {"aaa", []programFunc{dropsConnAtOnce, dropsConnAtOnce, lists(all, closesWrite)}, nil, io.EOF, nil},
		"lost halfway":                 {"aa", []programFunc{lists(part, dropsConn)}, nil, unavailable, runtime.ErrTainted},
		"lost at the end":              {"aa", []programFunc{lists(all, dropsConnAfterEnd)}, nil, unavailable, io.EOF},
		"restarted halfway":            {"ab", []programFunc{lists(part, dropsConn)}, nil, runtime.ErrContainerExited, io.EOF},
		"destroyed halfway":            {"a", []programFunc{lists(part, dropsConn)}, nil, runtime.ErrContainerExited, io.EOF},
		"silent before it starts":      {"a", []programFunc{neverStarts}, nil, runtime.ErrTainted, io.EOF},
		"silent before the first byte": {"a", []programFunc{sendsBytes("", stalls)}, nil, runtime.ErrTainted, unavailable},
		"silent halfway":               {"a", []programFunc{lists(part, stalls)}, nil, runtime.ErrTainted, unavailable},
		"silent at the end":            {"a", []programFunc{lists(all, stalls)}, nil, runtime.ErrTainted, io.EOF},
		"silent, engine unavailable":   {"a", []programFunc{lists(part, stalls)}, unavailable, unavailable, runtime.ErrTainted},
		"silent and exited":            {"a", []programFunc{lists(part, stalls)}, runtime.ErrNotRunning, runtime.ErrContainerExited, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := transferSession(t, &c.engine, c.boots, c.programs...)
				defer s.Close()
				start := time.Now()
				err := scanTree(t.Context(), s)
				require.ErrorIs(t, err, c.err)
				if c.not != nil {
					require.NotErrorIs(t, err, c.not)
				}
				require.LessOrEqual(t, time.Since(start), time.Minute+time.Second)
			})
		})
	}
}

// The end of the caller's context ends a scan and a write immediately and notifies the
// program.
func TestTreeCancelled(t *testing.T) {
	t.Parallel()
	fill := func(ctx context.Context, s *Session) error { return fillTree(ctx, s, nil) }
	for name, c := range map[string]struct {
		plays programFunc
		call  func(ctx context.Context, s *Session) error
	}{
		"scan, not started":      {neverStarts, scanTree},
		"scan, no batch":         {sendsBytes("", stalls), scanTree},
		"scan, silent":           {lists(Window+5, stalls), scanTree},
		"write, not started":     {neverStarts, fill},
		"write, not ready":       {sendsBytes("", stalls), fill},
		"write, does not read":   {writes(1, then(stalls)), fill},
		"write, does not finish": {writes(2, func(r *tree.Receiver, s *Stream) error { _, _ = r.Next(); return stalls(s) }), fill},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var engine error
				ended := make(chan struct{})
				s := transferSession(t, &engine, "a", func(in *Incoming, st *Stream) error {
					defer close(ended)
					return c.plays(in, st)
				})
				defer s.Close()
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errCancelled) })
				start := time.Now()
				require.ErrorIs(t, c.call(ctx, s), errCancelled)
				<-ended
				require.Equal(t, time.Second, time.Since(start))
				require.ErrorIs(t, c.call(ctx, s), errCancelled, "it has ended before")
				<-time.After(time.Hour)
				require.NoError(t, s.responsiveness.check())
			})
		})
	}
}

// Time that this end takes does not count against the container, also while the
// program has nothing to report.
func TestSlowTreeDoesNotTaint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		s := transferSession(t, &engine, "a", writes(2, endsTree))
		w, err := s.FillTree(t.Context(), "/data", NoFence, func([]tree.Stamp) { <-time.After(time.Hour) })
		require.NoError(t, err)
		for _, path := range []string{"a", "b"} {
			<-time.After(time.Hour)
			require.NoError(t, w.Create(treeFile(path, 0)))
		}
		require.NoError(t, w.Close())

		s = transferSession(t, &engine, "a", lists(len(content), closesWrite))
		scan, err := s.ScanTree(t.Context(), "/data", tree.ScanOptions{})
		require.NoError(t, err)
		n := 0
		for ; err == nil; n++ {
			<-time.After(time.Hour)
			_, err = scan.Next()
		}
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, 3, n)
		require.NoError(t, scan.Close())
	})
}

// A program without the feature receives no request, and its container is not tainted:
// an older server may have created it.
func TestTreesNeedFeature(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		s := transferSession(t, &engine, "a", failsFileNotFound)
		require.NoError(t, s.Open(t.Context()))
		s.conn.features = slices.DeleteFunc(slices.Clone(features), func(f string) bool { return f == FeatureTrees })
		require.ErrorIs(t, scanTree(t.Context(), s), runtime.ErrUnsupported)
		err := fillTree(t.Context(), s, nil)
		require.ErrorIs(t, err, runtime.ErrUnsupported)
		require.NotErrorIs(t, err, runtime.ErrTainted)
		require.NoError(t, s.Close())
	})
}

// Only a server that may change something writes trees. Every server scans.
func TestFillTreeNeedsMayChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		denied := errors.New("lease lost")
		s := transferSession(t, &engine, "a", lists(len(content), closesWrite))
		s.mayChange = func() error { return denied }
		require.ErrorIs(t, fillTree(t.Context(), s, nil), denied)
		require.ErrorIs(t, scanTree(t.Context(), s), io.EOF)
		require.NoError(t, s.Close())
	})
}
