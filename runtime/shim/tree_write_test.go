package shim

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
)

// writes receives some of a tree and then runs then. It reports a stamp for each file.
func writes(files int, then func(r *tree.Receiver, s *Stream) error) programFunc {
	return func(in *Incoming, s *Stream) error {
		if err := in.SendProgress(ProgressStarted); err != nil {
			return err
		}
		r := tree.NewReceiver(s, s)
		if err := r.Ready(); err != nil {
			return err
		}
		for n := range files {
			if _, err := r.Next(); err != nil {
				return err
			}
			if err := r.Stamp(tree.Stamp{Inode: uint64(n) + 1}); err != nil {
				return err
			}
		}
		return then(r, s)
	}
}

func endsTree(r *tree.Receiver, s *Stream) error {
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		return errors.New("missing end")
	}
	return errors.Join(r.End(), s.CloseWrite())
}

// then drops the receiver.
func then(f func(s *Stream) error) func(*tree.Receiver, *Stream) error {
	return func(_ *tree.Receiver, s *Stream) error { return f(s) }
}

func succeedsAtOnce(r *tree.Receiver, s *Stream) error { return errors.Join(r.End(), s.CloseWrite()) }

func stampsTooMuch(r *tree.Receiver, s *Stream) error {
	return errors.Join(r.Stamp(tree.Stamp{}), r.Stamp(tree.Stamp{}), r.End(), s.CloseWrite())
}

// fillTree writes two files.
func fillTree(ctx context.Context, s *Session, stamped func([]tree.Stamp)) error {
	w, err := s.FillTree(ctx, "/data", NoFence, stamped)
	if err != nil {
		return err
	}
	err = errors.Join(w.Create(treeFile("a", 0)), w.Create(treeFile("b", len(content))), w.Write(content))
	if err == nil {
		err = w.Close()
	}
	again := w.Close()
	if err != nil && again == nil {
		return errors.New("a tree that has failed is complete")
	}
	w.Abort(err)
	return err
}

// A tree is written only if the program has confirmed that. An error identifies its
// cause. The stamps are those of the files, in order.
func TestFillTree(t *testing.T) {
	t.Parallel()
	unavailable := runtime.ErrUnavailable
	for name, c := range map[string]struct {
		boots    string
		programs []programFunc
		engine   error
		err, not error
	}{
		"complete":                   {"a", []programFunc{writes(2, endsTree)}, nil, nil, nil},
		"lost before it starts":      {"aa", []programFunc{dropsConnAtOnce, writes(2, endsTree)}, nil, nil, nil},
		"the directory is not there": {"a", []programFunc{failsFileNotFound}, nil, runtime.ErrFileNotFound, nil},
		"refused halfway":            {"a", []programFunc{writes(1, then(failsBadArchive))}, nil, runtime.ErrBadArchive, nil},
		"refused at the end":         {"a", []programFunc{writes(2, then(failsBadArchive))}, nil, runtime.ErrBadArchive, nil},
		"success at once":            {"a", []programFunc{writes(0, succeedsAtOnce)}, nil, runtime.ErrBadArchive, nil},
		"success without an end":     {"a", []programFunc{writes(2, then(truncates))}, nil, unavailable, nil},
		"too many stamps":            {"a", []programFunc{writes(2, stampsTooMuch)}, nil, runtime.ErrBadArchive, nil},
		"no stamps":                  {"a", []programFunc{sendsBytes("tree", stalls)}, nil, runtime.ErrBadArchive, unavailable},
		"lost halfway":               {"aa", []programFunc{writes(1, then(dropsConn))}, nil, unavailable, runtime.ErrTainted},
		"destroyed halfway":          {"a", []programFunc{writes(1, then(dropsConn))}, nil, runtime.ErrContainerExited, nil},
		"silent before it starts":    {"a", []programFunc{neverStarts}, nil, runtime.ErrTainted, unavailable},
		"silent before it is ready":  {"a", []programFunc{sendsBytes("", stalls)}, nil, runtime.ErrTainted, unavailable},
		"silent halfway":             {"a", []programFunc{writes(1, then(stalls))}, nil, runtime.ErrTainted, unavailable},
		"silent at the end":          {"a", []programFunc{writes(2, func(r *tree.Receiver, s *Stream) error { _, _ = r.Next(); return stalls(s) })}, nil, runtime.ErrTainted, unavailable},
		"silent, engine unavailable": {"a", []programFunc{writes(1, then(stalls))}, unavailable, unavailable, runtime.ErrTainted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := transferSession(t, &c.engine, c.boots, c.programs...)
				defer s.Close()
				start := time.Now()
				var stamps []tree.Stamp
				err := fillTree(t.Context(), s, func(more []tree.Stamp) { stamps = append(stamps, more...) })
				require.ErrorIs(t, err, c.err)
				if c.not != nil {
					require.NotErrorIs(t, err, c.not)
				}
				if err == nil {
					require.Equal(t, []tree.Stamp{{Inode: 1}, {Inode: 2}}, stamps)
				}
				require.LessOrEqual(t, time.Since(start), time.Minute+time.Second)
			})
		})
	}
}

// A tree that was sent wrongly is never complete.
func TestFillTreeFailedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		s := transferSession(t, &engine, "a", writes(2, endsTree))
		w, err := s.FillTree(t.Context(), "/data", NoFence, nil)
		require.NoError(t, err)
		require.NoError(t, w.Create(treeFile("b", 0)))
		require.ErrorIs(t, w.Create(treeFile("a", 0)), runtime.ErrBadArchive)
		require.ErrorIs(t, w.Create(treeFile("c", 0)), runtime.ErrBadArchive)
		require.ErrorIs(t, w.Close(), runtime.ErrBadArchive)
		require.ErrorIs(t, w.Close(), runtime.ErrBadArchive)

		s = transferSession(t, &engine, "a", writes(2, endsTree))
		w, err = s.FillTree(t.Context(), "/data", NoFence, nil)
		require.NoError(t, err)
		w.Abort(nil)
		require.Error(t, w.Close(), "it was aborted")
	})
}
