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

// programFunc is what a container's program does with a transfer request. It
// returns the resulting error.
type programFunc func(in *Incoming, s *Stream) error

var errDropConn = errors.New("connection lost instead of a response")

// transferSession returns a session with a container that has a minute to
// answer. The n-th program plays its n-th connection, with the n-th boot ID;
// after the last one the container is destroyed.
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

// sendsPart sends the content, or the first part of it, and then runs then.
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

// An archive is complete only when the program has sent its end and a
// successful response. Everything else is an error that identifies the cause.
func TestCopyOut(t *testing.T) {
	t.Parallel()
	unavailable := runtime.ErrUnavailable
	for name, c := range map[string]struct {
		boots    string
		programs []programFunc
		engine   error // its error while the program is silent
		err      error // nil for a complete archive
		not      error
	}{
		"complete":                     {boots: "a", programs: []programFunc{sendsPart(len(content), closesWrite)}},
		"empty":                        {boots: "a", programs: []programFunc{sendsPart(1, closesWrite)}},
		"the directory is not there":   {boots: "a", programs: []programFunc{failsFileNotFound}, err: runtime.ErrFileNotFound},
		"fails halfway":                {boots: "a", programs: []programFunc{sendsPart(Window+5, failsBadArchive)}, err: runtime.ErrBadArchive},
		"fails at the end":             {boots: "a", programs: []programFunc{sendsPart(Window+5, failsAfterEnd)}, err: runtime.ErrBadArchive},
		"truncated":                    {boots: "a", programs: []programFunc{sendsPart(Window+5, truncates)}, err: unavailable, not: runtime.ErrTainted},
		"ends before it starts":        {boots: "a", programs: []programFunc{endsBeforeStart}, err: runtime.ErrTainted},
		"lost before it starts":        {boots: "aaa", programs: []programFunc{dropsConnAtOnce, dropsConnAtOnce, sendsPart(len(content), closesWrite)}},
		"lost halfway":                 {boots: "aa", programs: []programFunc{sendsPart(Window+5, dropsConn)}, err: unavailable, not: runtime.ErrTainted},
		"lost at the end":              {boots: "aa", programs: []programFunc{sendsPart(Window+5, dropsConnAfterEnd)}, err: unavailable},
		"restarted halfway":            {boots: "ab", programs: []programFunc{sendsPart(Window+5, dropsConn)}, err: runtime.ErrContainerExited},
		"restarted before":             {boots: "ab", programs: []programFunc{dropsConnAtOnce}, err: runtime.ErrContainerExited},
		"destroyed halfway":            {boots: "a", programs: []programFunc{sendsPart(Window+5, dropsConn)}, err: runtime.ErrContainerExited},
		"destroyed before":             {programs: []programFunc{failsFileNotFound}, err: runtime.ErrNotRunning},
		"silent before it starts":      {boots: "a", programs: []programFunc{neverStarts}, err: runtime.ErrTainted},
		"silent before the first byte": {boots: "a", programs: []programFunc{sendsPart(0, stalls)}, err: runtime.ErrTainted, not: unavailable},
		"silent halfway":               {boots: "a", programs: []programFunc{sendsPart(Window+5, stalls)}, err: runtime.ErrTainted, not: unavailable},
		"silent, engine unavailable":   {boots: "a", programs: []programFunc{sendsPart(Window+5, stalls)}, engine: unavailable, err: unavailable, not: runtime.ErrTainted},
		"silent and exited":            {boots: "a", programs: []programFunc{sendsPart(Window+5, stalls)}, engine: runtime.ErrNotRunning, err: runtime.ErrContainerExited},
		"starts twice":                 {boots: "a", programs: []programFunc{startsTwice}, err: runtime.ErrTainted},
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
					require.Equal(t, err == nil, errors.Is(again, io.EOF), "second Read: %v", again)
					require.NoError(t, archive.Close())
					require.NoError(t, archive.Close())
				}
				require.ErrorIs(t, err, c.err)
				if c.not != nil {
					require.NotErrorIs(t, err, c.not)
				}
				require.LessOrEqual(t, time.Since(start), time.Minute+time.Second)
				require.True(t, bytes.HasPrefix(content, got))
				if name == "lost halfway" {
					require.False(t, s.responsiveness.unansweredSince.IsZero(), "counts as unanswered")
				}
				if name == "silent halfway" {
					require.ErrorIs(t, s.Restart(t.Context(), 1), runtime.ErrTainted, "every later call")
				}
			})
		})
	}
}

// readsPart reads some of the archive and then runs then.
func readsPart(part int, then func(s *Stream) error) programFunc {
	return func(in *Incoming, s *Stream) error {
		if err := in.SendProgress(ProgressStarted); err != nil {
			return err
		}
		got := make([]byte, part)
		n, err := io.ReadFull(s, got)
		if err != nil || !bytes.Equal(got[:n], content[:part]) {
			return errors.Join(err, errors.New("different bytes"))
		}
		return then(s)
	}
}

func readsEOF(s *Stream) error {
	n, err := s.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, io.EOF) {
		return errors.New("missing end")
	}
	return nil
}

func ignoresReset(s *Stream) error { <-s.exchange.conn.closed; return nil }

func readsUntilError(s *Stream) error {
	_, err := io.Copy(io.Discard, s)
	return err
}

// A copy succeeds only if the program has read everything up to its end. An
// error identifies its cause; an error of the caller's reader takes precedence.
func TestCopyIn(t *testing.T) {
	t.Parallel()
	errReader := errors.New("reader error")
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
		"complete":                   {"a", all, []programFunc{readsPart(len(content), readsEOF)}, nil, nil, nil},
		"lost before it starts":      {"aa", all, []programFunc{dropsConnAtOnce, readsPart(len(content), readsEOF)}, nil, nil, nil},
		"the directory is not there": {"a", all, []programFunc{failsFileNotFound}, nil, runtime.ErrFileNotFound, nil},
		"refused halfway":            {"a", all, []programFunc{readsPart(5, failsBadArchive)}, nil, runtime.ErrBadArchive, nil},
		"success halfway":            {"a", all, []programFunc{readsPart(5, truncates)}, nil, unavailable, nil},
		"lost halfway":               {"aa", all, []programFunc{readsPart(Window+5, dropsConn)}, nil, unavailable, runtime.ErrTainted},
		"destroyed halfway":          {"a", all, []programFunc{readsPart(Window+5, dropsConn)}, nil, runtime.ErrContainerExited, nil},
		"the reader fails":           {"a", broken, []programFunc{readsPart(5, readsUntilError)}, nil, errReader, nil},
		"the reader fails, silent":   {"a", broken, []programFunc{readsPart(Window, ignoresReset)}, nil, errReader, nil},
		"silent halfway":             {"a", all, []programFunc{readsPart(Window+5, stalls)}, nil, runtime.ErrTainted, unavailable},
		"silent at the end":          {"a", all, []programFunc{readsPart(len(content), stalls)}, nil, runtime.ErrTainted, unavailable},
		"silent, engine unavailable": {"a", all, []programFunc{readsPart(Window+5, stalls)}, unavailable, unavailable, runtime.ErrTainted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := transferSession(t, &c.engine, c.boots, c.programs...)
				defer s.Close()
				start := time.Now()
				err := s.CopyIn(t.Context(), "/data", NoFence, c.source())
				require.ErrorIs(t, err, c.err)
				if name == "the reader fails" {
					require.Zero(t, time.Since(start), "the program is notified")
				}
				if c.not != nil {
					require.NotErrorIs(t, err, c.not)
				}
				require.LessOrEqual(t, time.Since(start), time.Minute+time.Second)
			})
		})
	}
}

// failingReader always fails.
func failingReader(err error) io.Reader { r, w := io.Pipe(); w.CloseWithError(err); return r }

// The end of the caller's context ends a transfer immediately and notifies the
// program, whatever either of them waits for.
func TestTransferCancelled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plays programFunc
		call  func(ctx context.Context, s *Session) error
	}{
		"copy out, not started": {neverStarts, copyOut},
		"copy out, silent":      {sendsPart(Window+5, stalls), copyOut},
		"copy in, silent":       {readsPart(5, stalls), copyIn(bytes.NewReader(content))},
		"copy in, reader hangs": {readsPart(0, stalls), func(ctx context.Context, s *Session) error {
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
	return func(ctx context.Context, s *Session) error { return s.CopyIn(ctx, "/data", NoFence, from) }
}

// slowReader takes an hour for each piece.
type slowReader struct{ io.Reader }

func (r slowReader) Read(p []byte) (int, error) {
	<-time.After(time.Hour)
	return r.Reader.Read(p[:min(len(p), Window/2)])
}

// Time that this end takes does not count against the container.
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
		require.NoError(t, s.CopyIn(t.Context(), "/data", NoFence, slowReader{bytes.NewReader(content)}))
	})
}

// A program without the feature receives no request.
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

// Only a server that may change something can copy files in. Every server can
// copy files out.
func TestCopyInNeedsMayChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		denied := errors.New("lease lost")
		s := transferSession(t, &engine, "a", sendsPart(len(content), closesWrite))
		s.mayChange = func() error { return denied }
		require.ErrorIs(t, s.CopyIn(t.Context(), "/data", NoFence, bytes.NewReader(content)), denied)
		require.NoError(t, copyOut(t.Context(), s))
		require.NoError(t, s.Close())
	})
}
