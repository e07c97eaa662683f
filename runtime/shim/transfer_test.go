package shim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// programFunc is what a container's program does with a request to move files. It
// returns how that ended.
type programFunc func(in *Incoming, s *Stream) error

var errDropConn = errors.New("the connection is lost instead of an answer")

// transferSession is a session with a container that has a minute to answer. Its n-th
// connection is played by the n-th program, in the n-th of the boots; after the
// last one the container is gone.
func transferSession(t *testing.T, engine *error, boots string, programs ...programFunc) *Session {
	t.Helper()
	n := 0
	s := newSession("c", Options{
		Secret: secret, UnresponsiveTimeout: time.Minute,
		CheckRunning: func(context.Context, string) error { return *engine },
		Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
			if n == len(boots) {
				return nil, 0, runtime.ErrNotRunning
			}
			ours, theirs := net.Pipe()
			boot, play := boots[n:n+1], programs[min(n, len(programs)-1)]
			n++
			go func() { // ends with the connection
				channel, err := ProgramHandshake(theirs, DeriveKey(secret, "c"), HandshakeReply{BootID: boot, Main: MainRunning})
				if err != nil {
					return
				}
				c := NewConn(theirs, channel, func(in *Incoming) error { go serveTransfer(in, play); return nil }, nil)
				c.Run()
			}()
			return ours, Version, nil
		},
	})
	t.Cleanup(func() { s.Close() })
	return s
}

func serveTransfer(in *Incoming, play programFunc) {
	if in.Request.Streams == 0 {
		_ = in.Respond(Response{}) // to a restart
		return
	}
	err := play(in, in.Stream(0))
	if errors.Is(err, errDropConn) {
		in.conn.Close()
		return
	}
	a := Response{}
	if err != nil {
		a.Error = NewWireError(err)
	}
	_ = in.Respond(a)
}

var content = bytes.Repeat([]byte("0123456789abcdef"), 3*Window/16)

// sendsPart sends the content, or the first part of it, and then does what a test
// wants.
func sendsPart(part int, then func(s *Stream) error) programFunc {
	return func(in *Incoming, s *Stream) error {
		if err := in.SendProgress(ProgressStarted); err != nil {
			return err
		}
		if _, err := s.Write(content[:part]); err != nil {
			return err
		}
		return then(s)
	}
}

func closesWrite(s *Stream) error       { return s.CloseWrite() }
func truncates(*Stream) error           { return nil }
func dropsConn(*Stream) error           { return errDropConn }
func failsBadArchive(*Stream) error     { return runtime.ErrBadArchive }
func stalls(s *Stream) error            { <-s.Done(); return nil }
func failsAfterEnd(s *Stream) error     { _ = s.CloseWrite(); return runtime.ErrBadArchive }
func dropsConnAfterEnd(s *Stream) error { _ = s.CloseWrite(); return errDropConn }

func failsFileNotFound(*Incoming, *Stream) error { return runtime.ErrFileNotFound }
func neverStarts(in *Incoming, s *Stream) error  { <-s.Done(); return nil }
func dropsConnAtOnce(*Incoming, *Stream) error   { return errDropConn }
func endsBeforeStart(*Incoming, *Stream) error   { return nil }
func startsTwice(in *Incoming, s *Stream) error {
	_ = in.SendProgress(ProgressStarted)
	_ = in.SendProgress(ProgressStarted)
	<-s.Done()
	return nil
}

// An archive is whole only when the program has sent its end and has answered
// that all went well. Whatever else happens is an error that says whose cause it
// is.
func TestCopyOut(t *testing.T) {
	t.Parallel()
	unavailable := runtime.ErrUnavailable
	for name, c := range map[string]struct {
		boots    string
		programs []programFunc
		engine   error // from when the program is silent
		err      error // nil for a whole archive
		not      error
	}{
		"whole":                        {boots: "a", programs: []programFunc{sendsPart(len(content), closesWrite)}},
		"empty":                        {boots: "a", programs: []programFunc{sendsPart(1, closesWrite)}},
		"the directory is not there":   {boots: "a", programs: []programFunc{failsFileNotFound}, err: runtime.ErrFileNotFound},
		"it fails in the middle":       {boots: "a", programs: []programFunc{sendsPart(Window+5, failsBadArchive)}, err: runtime.ErrBadArchive},
		"it fails at the end":          {boots: "a", programs: []programFunc{sendsPart(Window+5, failsAfterEnd)}, err: runtime.ErrBadArchive},
		"it is cut off":                {boots: "a", programs: []programFunc{sendsPart(Window+5, truncates)}, err: unavailable, not: runtime.ErrTainted},
		"it ends before it begins":     {boots: "a", programs: []programFunc{endsBeforeStart}, err: runtime.ErrTainted},
		"lost before it begins":        {boots: "aaa", programs: []programFunc{dropsConnAtOnce, dropsConnAtOnce, sendsPart(len(content), closesWrite)}},
		"lost in the middle":           {boots: "aa", programs: []programFunc{sendsPart(Window+5, dropsConn)}, err: unavailable, not: runtime.ErrTainted},
		"lost at the end":              {boots: "aa", programs: []programFunc{sendsPart(Window+5, dropsConnAfterEnd)}, err: unavailable},
		"restarted in the middle":      {boots: "ab", programs: []programFunc{sendsPart(Window+5, dropsConn)}, err: runtime.ErrContainerExited},
		"restarted before":             {boots: "ab", programs: []programFunc{dropsConnAtOnce}, err: runtime.ErrContainerExited},
		"gone in the middle":           {boots: "a", programs: []programFunc{sendsPart(Window+5, dropsConn)}, err: runtime.ErrContainerExited},
		"gone before":                  {programs: []programFunc{failsFileNotFound}, err: runtime.ErrNotRunning},
		"silent before it begins":      {boots: "a", programs: []programFunc{neverStarts}, err: runtime.ErrTainted},
		"silent before the first byte": {boots: "a", programs: []programFunc{sendsPart(0, stalls)}, err: runtime.ErrTainted, not: unavailable},
		"silent in the middle":         {boots: "a", programs: []programFunc{sendsPart(Window+5, stalls)}, err: runtime.ErrTainted, not: unavailable},
		"silent, the engine is away":   {boots: "a", programs: []programFunc{sendsPart(Window+5, stalls)}, engine: unavailable, err: unavailable, not: runtime.ErrTainted},
		"silent and gone":              {boots: "a", programs: []programFunc{sendsPart(Window+5, stalls)}, engine: runtime.ErrNotRunning, err: runtime.ErrContainerExited},
		"it begins twice":              {boots: "a", programs: []programFunc{startsTwice}, err: runtime.ErrTainted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := transferSession(t, &c.engine, c.boots, c.programs...)
				defer s.Close()
				start := time.Now()
				archive, err := s.CopyOut(t.Context(), "/data")
				var got []byte
				if err == nil {
					got, err = io.ReadAll(archive)
					_, again := archive.Read(make([]byte, 1))
					require.Equal(t, err == nil, errors.Is(again, io.EOF), "once more: %v", again)
					require.NoError(t, archive.Close())
					require.NoError(t, archive.Close())
				}
				require.ErrorIs(t, err, c.err)
				if c.not != nil {
					require.NotErrorIs(t, err, c.not)
				}
				require.LessOrEqual(t, time.Since(start), time.Minute+time.Second)
				require.True(t, bytes.HasPrefix(content, got))
				if name == "lost in the middle" {
					require.False(t, s.responsiveness.unansweredSince.IsZero(), "it counts as unanswered")
				}
				if name == "silent in the middle" {
					require.ErrorIs(t, s.Restart(t.Context(), 1), runtime.ErrTainted, "every later call")
				}
			})
		})
	}
}

// readsPart takes some of the archive, and then does what a test wants.
func readsPart(part int, then func(s *Stream) error) programFunc {
	return func(in *Incoming, s *Stream) error {
		if err := in.SendProgress(ProgressStarted); err != nil {
			return err
		}
		got := make([]byte, part)
		n, err := io.ReadFull(s, got)
		if err != nil || !bytes.Equal(got[:n], content[:part]) {
			return errors.Join(err, errors.New("other bytes"))
		}
		return then(s)
	}
}

func readsEOF(s *Stream) error {
	n, err := s.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, io.EOF) {
		return errors.New("no end")
	}
	return nil
}

func ignoresReset(s *Stream) error { <-s.exchange.conn.closed; return nil }

func readsUntilError(s *Stream) error {
	_, err := io.Copy(io.Discard, s)
	return err
}

// What was put is all that the program has read to its end. A failure is told as
// whose it is, the caller's reader's first.
func TestCopyIn(t *testing.T) {
	t.Parallel()
	errReader := errors.New("their own")
	all := func() io.Reader { return bytes.NewReader(content) }
	broken := func() io.Reader { return io.MultiReader(bytes.NewReader(content[:Window+5]), failingReader(errReader)) }
	unavailable := runtime.ErrUnavailable
	for name, c := range map[string]struct {
		boots    string
		source   func() io.Reader
		programs []programFunc
		engine   error
		err, not error
	}{
		"whole":                        {"a", all, []programFunc{readsPart(len(content), readsEOF)}, nil, nil, nil},
		"lost before it begins":        {"aa", all, []programFunc{dropsConnAtOnce, readsPart(len(content), readsEOF)}, nil, nil, nil},
		"the directory is not there":   {"a", all, []programFunc{failsFileNotFound}, nil, runtime.ErrFileNotFound, nil},
		"refused in the middle":        {"a", all, []programFunc{readsPart(5, failsBadArchive)}, nil, runtime.ErrBadArchive, nil},
		"taken for whole in between":   {"a", all, []programFunc{readsPart(5, truncates)}, nil, unavailable, nil},
		"lost in the middle":           {"aa", all, []programFunc{readsPart(Window+5, dropsConn)}, nil, unavailable, runtime.ErrTainted},
		"gone in the middle":           {"a", all, []programFunc{readsPart(Window+5, dropsConn)}, nil, runtime.ErrContainerExited, nil},
		"the reader fails":             {"a", broken, []programFunc{readsPart(5, readsUntilError)}, nil, errReader, nil},
		"the reader fails, it is mute": {"a", broken, []programFunc{readsPart(Window, ignoresReset)}, nil, errReader, nil},
		"silent in the middle":         {"a", all, []programFunc{readsPart(Window+5, stalls)}, nil, runtime.ErrTainted, unavailable},
		"silent at the end":            {"a", all, []programFunc{readsPart(len(content), stalls)}, nil, runtime.ErrTainted, unavailable},
		"silent, the engine is away":   {"a", all, []programFunc{readsPart(Window+5, stalls)}, unavailable, unavailable, runtime.ErrTainted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := transferSession(t, &c.engine, c.boots, c.programs...)
				defer s.Close()
				start := time.Now()
				err := s.CopyIn(t.Context(), "/data", c.source())
				require.ErrorIs(t, err, c.err)
				if name == "the reader fails" {
					require.Zero(t, time.Since(start), "the program is told")
				}
				if c.not != nil {
					require.NotErrorIs(t, err, c.not)
				}
				require.LessOrEqual(t, time.Since(start), time.Minute+time.Second)
			})
		})
	}
}

// failingReader only fails.
func failingReader(err error) io.Reader { r, w := io.Pipe(); w.CloseWithError(err); return r }

// The end of the caller's context ends a transfer at once, and the program learns
// it, whatever either of them waits for.
func TestTransferCancelled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plays programFunc
		call  func(ctx context.Context, s *Session) error
	}{
		"get, not begun": {neverStarts, copyOut},
		"get, silent":    {sendsPart(Window+5, stalls), copyOut},
		"put, silent":    {readsPart(5, stalls), copyIn(bytes.NewReader(content))},
		"put, its reader hangs": {readsPart(0, stalls), func(ctx context.Context, s *Session) error {
			r, w := io.Pipe()
			defer w.Close()
			return copyIn(r)(ctx, s)
		}},
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
				require.Equal(t, time.Second, time.Since(start))
				<-ended
				require.Equal(t, time.Second, time.Since(start))
				<-time.After(time.Hour)
				require.NoError(t, s.responsiveness.check())
			})
		})
	}
}

func copyOut(ctx context.Context, s *Session) error {
	archive, err := s.CopyOut(ctx, "/data")
	if err != nil {
		return err
	}
	defer archive.Close()
	_, err = io.Copy(io.Discard, archive)
	return err
}

func copyIn(from io.Reader) func(ctx context.Context, s *Session) error {
	return func(ctx context.Context, s *Session) error { return s.CopyIn(ctx, "/data", from) }
}

// slowReader takes an hour for each piece.
type slowReader struct{ io.Reader }

func (r slowReader) Read(p []byte) (int, error) {
	<-time.After(time.Hour)
	return r.Reader.Read(p[:min(len(p), Window/2)])
}

// The time that this end takes is nothing against the container.
func TestSlowServerDoesNotTaint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		s := transferSession(t, &engine, "a", sendsPart(len(content), closesWrite))
		archive, err := s.CopyOut(t.Context(), "/data")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, slowReader{archive})
		require.NoError(t, err)
		require.NoError(t, archive.Close())

		s = transferSession(t, &engine, "a", readsPart(len(content), readsEOF))
		require.NoError(t, s.CopyIn(t.Context(), "/data", slowReader{bytes.NewReader(content)}))
	})
}

// A program that does not have the feature is not asked.
func TestCopyNeedsFeature(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		s := transferSession(t, &engine, "a", failsFileNotFound)
		require.NoError(t, s.Open(t.Context()))
		s.conn.features = nil
		require.ErrorIs(t, copyOut(t.Context(), s), runtime.ErrTainted)
		require.NoError(t, s.Close())
	})
}

// Files are put only by a server that may change something, and are got by any.
func TestCopyInNeedsMayChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		denied := errors.New("the lease is over")
		s := transferSession(t, &engine, "a", sendsPart(len(content), closesWrite))
		s.mayChange = func() error { return denied }
		require.ErrorIs(t, s.CopyIn(t.Context(), "/data", bytes.NewReader(content)), denied)
		require.NoError(t, copyOut(t.Context(), s))
		require.NoError(t, s.Close())
	})
}
