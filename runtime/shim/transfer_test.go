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

// program is what a container's program does with a request to move files. It
// returns how that ended.
type program func(in *Incoming, s *Stream) error

var errVanish = errors.New("the connection is lost instead of an answer")

// moving is a session with a container that has a minute to answer. Its n-th
// connection is played by the n-th program, in the n-th of the boots; after the
// last one the container is gone.
func moving(t *testing.T, engine *error, boots string, programs ...program) *Session {
	t.Helper()
	n := 0
	s := newSession("c", Options{
		Secret: secret, UnresponsiveTimeout: time.Minute,
		Running: func(context.Context, string) error { return *engine },
		Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
			if n == len(boots) {
				return nil, 0, runtime.ErrNotRunning
			}
			ours, theirs := net.Pipe()
			boot, play := boots[n:n+1], programs[min(n, len(programs)-1)]
			n++
			go func() { // ends with the connection
				channel, err := Accept(theirs, Key(secret, "c"), Welcome{Boot: boot, Main: MainRunning})
				if err != nil {
					return
				}
				c := NewConn(theirs, channel, func(in *Incoming) error { go serveMove(in, play); return nil }, nil)
				c.Run()
			}()
			return ours, Version, nil
		},
	})
	t.Cleanup(func() { s.Close() })
	return s
}

func serveMove(in *Incoming, play program) {
	if in.Request.Streams == 0 {
		_ = in.Answer(Answer{}) // to a restart
		return
	}
	err := play(in, in.Stream(0))
	if errors.Is(err, errVanish) {
		in.conn.Close()
		return
	}
	a := Answer{}
	if err != nil {
		a.Fault = NewFault(err)
	}
	_ = in.Answer(a)
}

var content = bytes.Repeat([]byte("0123456789abcdef"), 3*Window/16)

// packs sends the content, or the first part of it, and then does what a test
// wants.
func packs(part int, then func(s *Stream) error) program {
	return func(in *Incoming, s *Stream) error {
		if err := in.Note(TurnStarted); err != nil {
			return err
		}
		if _, err := s.Write(content[:part]); err != nil {
			return err
		}
		return then(s)
	}
}

func whole(s *Stream) error       { return s.CloseWrite() }
func cutOff(*Stream) error        { return nil }
func vanishes(*Stream) error      { return errVanish }
func fails(*Stream) error         { return runtime.ErrBadArchive }
func staysSilent(s *Stream) error { <-s.Over(); return nil }
func wholeBad(s *Stream) error    { _ = s.CloseWrite(); return runtime.ErrBadArchive }
func wholeLost(s *Stream) error   { _ = s.CloseWrite(); return errVanish }

func missing(*Incoming, *Stream) error            { return runtime.ErrNoFile }
func neverBegins(in *Incoming, s *Stream) error   { <-s.Over(); return nil }
func vanishesAtOnce(*Incoming, *Stream) error     { return errVanish }
func endsBeforeItBegins(*Incoming, *Stream) error { return nil }
func saysItTwice(in *Incoming, s *Stream) error {
	_ = in.Note(TurnStarted)
	_ = in.Note(TurnStarted)
	<-s.Over()
	return nil
}

// An archive is whole only when the program has sent its end and has answered
// that all went well. Whatever else happens is an error that says whose cause it
// is.
func TestGetFiles(t *testing.T) {
	t.Parallel()
	away := runtime.ErrUnavailable
	for name, c := range map[string]struct {
		boots    string
		programs []program
		engine   error // from when the program is silent
		err      error // nil for a whole archive
		not      error
	}{
		"whole":                        {boots: "a", programs: []program{packs(len(content), whole)}},
		"empty":                        {boots: "a", programs: []program{packs(1, whole)}},
		"the directory is not there":   {boots: "a", programs: []program{missing}, err: runtime.ErrNoFile},
		"it fails in the middle":       {boots: "a", programs: []program{packs(Window+5, fails)}, err: runtime.ErrBadArchive},
		"it fails at the end":          {boots: "a", programs: []program{packs(Window+5, wholeBad)}, err: runtime.ErrBadArchive},
		"it is cut off":                {boots: "a", programs: []program{packs(Window+5, cutOff)}, err: away, not: runtime.ErrDoomed},
		"it ends before it begins":     {boots: "a", programs: []program{endsBeforeItBegins}, err: runtime.ErrDoomed},
		"lost before it begins":        {boots: "aaa", programs: []program{vanishesAtOnce, vanishesAtOnce, packs(len(content), whole)}},
		"lost in the middle":           {boots: "aa", programs: []program{packs(Window+5, vanishes)}, err: away, not: runtime.ErrDoomed},
		"lost at the end":              {boots: "aa", programs: []program{packs(Window+5, wholeLost)}, err: away},
		"restarted in the middle":      {boots: "ab", programs: []program{packs(Window+5, vanishes)}, err: runtime.ErrLost},
		"restarted before":             {boots: "ab", programs: []program{vanishesAtOnce}, err: runtime.ErrLost},
		"gone in the middle":           {boots: "a", programs: []program{packs(Window+5, vanishes)}, err: runtime.ErrLost},
		"gone before":                  {programs: []program{missing}, err: runtime.ErrNotRunning},
		"silent before it begins":      {boots: "a", programs: []program{neverBegins}, err: runtime.ErrDoomed},
		"silent before the first byte": {boots: "a", programs: []program{packs(0, staysSilent)}, err: runtime.ErrDoomed, not: away},
		"silent in the middle":         {boots: "a", programs: []program{packs(Window+5, staysSilent)}, err: runtime.ErrDoomed, not: away},
		"silent, the engine is away":   {boots: "a", programs: []program{packs(Window+5, staysSilent)}, engine: away, err: away, not: runtime.ErrDoomed},
		"silent and gone":              {boots: "a", programs: []program{packs(Window+5, staysSilent)}, engine: runtime.ErrNotRunning, err: runtime.ErrLost},
		"it begins twice":              {boots: "a", programs: []program{saysItTwice}, err: runtime.ErrDoomed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := moving(t, &c.engine, c.boots, c.programs...)
				defer s.Close()
				begun := time.Now()
				archive, err := s.GetFiles(t.Context(), "/data")
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
				require.LessOrEqual(t, time.Since(begun), time.Minute+time.Second)
				require.True(t, bytes.HasPrefix(content, got))
				if name == "lost in the middle" {
					require.False(t, s.silence.request.IsZero(), "it counts as unanswered")
				}
				if name == "silent in the middle" {
					require.ErrorIs(t, s.Restart(t.Context(), 1), runtime.ErrDoomed, "every later call")
				}
			})
		})
	}
}

// reads takes some of the archive, and then does what a test wants.
func reads(part int, then func(s *Stream) error) program {
	return func(in *Incoming, s *Stream) error {
		if err := in.Note(TurnStarted); err != nil {
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

func toItsEnd(s *Stream) error {
	n, err := s.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, io.EOF) {
		return errors.New("no end")
	}
	return nil
}

func mute(s *Stream) error { <-s.x.conn.lost; return nil }

func tillBroken(s *Stream) error {
	_, err := io.Copy(io.Discard, s)
	return err
}

// What was put is all that the program has read to its end. A failure is told as
// whose it is, the caller's reader's first.
func TestPutFiles(t *testing.T) {
	t.Parallel()
	theirs := errors.New("their own")
	all := func() io.Reader { return bytes.NewReader(content) }
	broken := func() io.Reader { return io.MultiReader(bytes.NewReader(content[:Window+5]), readerOf(theirs)) }
	away := runtime.ErrUnavailable
	for name, c := range map[string]struct {
		boots    string
		source   func() io.Reader
		programs []program
		engine   error
		err, not error
	}{
		"whole":                        {"a", all, []program{reads(len(content), toItsEnd)}, nil, nil, nil},
		"lost before it begins":        {"aa", all, []program{vanishesAtOnce, reads(len(content), toItsEnd)}, nil, nil, nil},
		"the directory is not there":   {"a", all, []program{missing}, nil, runtime.ErrNoFile, nil},
		"refused in the middle":        {"a", all, []program{reads(5, fails)}, nil, runtime.ErrBadArchive, nil},
		"taken for whole in between":   {"a", all, []program{reads(5, cutOff)}, nil, away, nil},
		"lost in the middle":           {"aa", all, []program{reads(Window+5, vanishes)}, nil, away, runtime.ErrDoomed},
		"gone in the middle":           {"a", all, []program{reads(Window+5, vanishes)}, nil, runtime.ErrLost, nil},
		"the reader fails":             {"a", broken, []program{reads(5, tillBroken)}, nil, theirs, nil},
		"the reader fails, it is mute": {"a", broken, []program{reads(Window, mute)}, nil, theirs, nil},
		"silent in the middle":         {"a", all, []program{reads(Window+5, staysSilent)}, nil, runtime.ErrDoomed, away},
		"silent at the end":            {"a", all, []program{reads(len(content), staysSilent)}, nil, runtime.ErrDoomed, away},
		"silent, the engine is away":   {"a", all, []program{reads(Window+5, staysSilent)}, away, away, runtime.ErrDoomed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := moving(t, &c.engine, c.boots, c.programs...)
				defer s.Close()
				begun := time.Now()
				err := s.PutFiles(t.Context(), "/data", c.source())
				require.ErrorIs(t, err, c.err)
				if name == "the reader fails" {
					require.Zero(t, time.Since(begun), "the program is told")
				}
				if c.not != nil {
					require.NotErrorIs(t, err, c.not)
				}
				require.LessOrEqual(t, time.Since(begun), time.Minute+time.Second)
			})
		})
	}
}

// readerOf only fails.
func readerOf(err error) io.Reader { r, w := io.Pipe(); w.CloseWithError(err); return r }

// The end of the caller's context ends a transfer at once, and the program learns
// it, whatever either of them waits for.
func TestTransferIsCancelled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plays program
		call  func(ctx context.Context, s *Session) error
	}{
		"get, not begun": {neverBegins, get},
		"get, silent":    {packs(Window+5, staysSilent), get},
		"put, silent":    {reads(5, staysSilent), put(bytes.NewReader(content))},
		"put, its reader hangs": {reads(0, staysSilent), func(ctx context.Context, s *Session) error {
			r, w := io.Pipe()
			defer w.Close()
			return put(r)(ctx, s)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var engine error
				told := make(chan struct{})
				s := moving(t, &engine, "a", func(in *Incoming, st *Stream) error {
					defer close(told)
					return c.plays(in, st)
				})
				defer s.Close()
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errEnough) })
				begun := time.Now()
				require.ErrorIs(t, c.call(ctx, s), errEnough)
				require.Equal(t, time.Second, time.Since(begun))
				<-told
				require.Equal(t, time.Second, time.Since(begun))
				<-time.After(time.Hour)
				require.NoError(t, s.silence.err())
			})
		})
	}
}

func get(ctx context.Context, s *Session) error {
	archive, err := s.GetFiles(ctx, "/data")
	if err != nil {
		return err
	}
	defer archive.Close()
	_, err = io.Copy(io.Discard, archive)
	return err
}

func put(from io.Reader) func(ctx context.Context, s *Session) error {
	return func(ctx context.Context, s *Session) error { return s.PutFiles(ctx, "/data", from) }
}

// slow takes an hour for each piece.
type slow struct{ io.Reader }

func (r slow) Read(p []byte) (int, error) {
	<-time.After(time.Hour)
	return r.Reader.Read(p[:min(len(p), Window/2)])
}

// The time that this end takes is nothing against the container.
func TestSlowServerIsNoSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		s := moving(t, &engine, "a", packs(len(content), whole))
		archive, err := s.GetFiles(t.Context(), "/data")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, slow{archive})
		require.NoError(t, err)
		require.NoError(t, archive.Close())

		s = moving(t, &engine, "a", reads(len(content), toItsEnd))
		require.NoError(t, s.PutFiles(t.Context(), "/data", slow{bytes.NewReader(content)}))
	})
}

// A program that does not have the feature is not asked.
func TestNoFeatureFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		s := moving(t, &engine, "a", missing)
		require.NoError(t, s.Open(t.Context()))
		s.link.features = nil
		require.ErrorIs(t, get(t.Context(), s), runtime.ErrDoomed)
		require.NoError(t, s.Close())
	})
}

// Files are put only by a server that may change something, and are got by any.
func TestTransferMayChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		denied := errors.New("the lease is over")
		s := moving(t, &engine, "a", packs(len(content), whole))
		s.mayChange = func() error { return denied }
		require.ErrorIs(t, s.PutFiles(t.Context(), "/data", bytes.NewReader(content)), denied)
		require.NoError(t, get(t.Context(), s))
		require.NoError(t, s.Close())
	})
}
