package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// fileStub is whatever a Service for files needs. Its calls are recorded.
type fileStub struct {
	runtime.Commander
	runtime.Ports
	openGates
	noUses
	refuse   error              // of the gate
	within   []string           // of the gate
	infos    []runtime.FileInfo // of ReadFile, one after the other; the last one stays
	content  func(ctx context.Context) io.Reader
	err      error // of the container
	releases bool  // the claim is released while the container is called
	released bool

	gated FileUse
	ref   runtime.FileRef
	calls int // of the container
	used  []FileUse
	bytes int64
}

func (s *fileStub) service() *Service {
	return New(Options{Claims: s, Workloads: s, Runtime: s, Gates: s, Uses: s, Log: slog.New(slog.DiscardHandler)})
}

func (s *fileStub) Claim(_ context.Context, id string) (claim.Claim, error) {
	if id == "ended" || s.released {
		return claim.Claim{ID: id, State: claim.Released}, nil
	}
	return claim.Claim{ID: id, Tenant: id, State: claim.Active, Container: "box", ContainerFence: 7}, nil
}

func (s *fileStub) Touch(ctx context.Context, id string) (claim.Claim, error) {
	return s.Claim(ctx, id)
}

func (s *fileStub) Current(context.Context, string) (*workload.Workload, pool.Record, error) {
	return nil, pool.Record{}, pool.ErrWorkloadNotFound
}

func (s *fileStub) File(_ context.Context, _ Grant, f FileUse) ([]string, error) {
	s.gated = f
	return s.within, s.refuse
}

func (s *fileStub) FileUsed(_ Grant, f FileUse, n int64) { s.used, s.bytes = append(s.used, f), n }

func (s *fileStub) called(ref runtime.FileRef) error {
	s.released = s.releases
	s.calls++
	s.ref = ref
	return s.err
}

func (s *fileStub) StatFile(_ context.Context, _ string, ref runtime.FileRef) (runtime.FileInfo, error) {
	return runtime.FileInfo{}, s.called(ref)
}

func (s *fileStub) ListFiles(_ context.Context, _ string, ref runtime.FileRef, _ string, _ int) ([]runtime.FileInfo, error) {
	return nil, s.called(ref)
}

func (s *fileStub) ReadFile(ctx context.Context, _ string, ref runtime.FileRef, _, _ int64) (runtime.FileInfo, io.ReadCloser, error) {
	if err := s.called(ref); err != nil {
		return runtime.FileInfo{}, nil, err
	}
	var info runtime.FileInfo
	if len(s.infos) > 0 {
		info = s.infos[0]
		s.infos = s.infos[min(1, len(s.infos)-1):]
	}
	if s.content == nil {
		return info, io.NopCloser(strings.NewReader("content")), nil
	}
	return info, io.NopCloser(s.content(ctx)), nil
}

func (s *fileStub) WriteFile(ctx context.Context, _ string, ref runtime.FileRef, _ fs.FileMode, content io.Reader) (runtime.FileInfo, error) {
	if s.content != nil {
		_, err := s.content(ctx).Read(nil)
		return runtime.FileInfo{}, err
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return runtime.FileInfo{}, err
	}
	return runtime.FileInfo{}, s.called(ref)
}

func (s *fileStub) RemoveFile(_ context.Context, _ string, ref runtime.FileRef, _ bool) error {
	return s.called(ref)
}

func (s *fileStub) ReadTree(_ context.Context, _ string, ref runtime.FileRef) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("tar")), s.called(ref)
}

func (s *fileStub) WriteTree(_ context.Context, _ string, ref runtime.FileRef, archive io.Reader) error {
	if _, err := io.Copy(io.Discard, archive); err != nil {
		return err
	}
	return s.called(ref)
}

// fileUses are all uses of a file.
var fileUses = map[string]func(context.Context, *Service, string, string) error{
	"stat": func(ctx context.Context, s *Service, id, name string) error {
		_, err := s.StatFile(ctx, id, name)
		return err
	},
	"list": func(ctx context.Context, s *Service, id, name string) error {
		_, err := s.ListFiles(ctx, id, name, "", 1)
		return err
	},
	"remove": func(ctx context.Context, s *Service, id, name string) error { return s.RemoveFile(ctx, id, name, true) },
	"read": func(ctx context.Context, s *Service, id, name string) error {
		_, content, err := s.ReadFile(ctx, id, name, nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, content)
		return errors.Join(err, content.Close())
	},
	"write": func(ctx context.Context, s *Service, id, name string) error {
		_, _, err := s.WriteFile(ctx, id, name, 0o644, strings.NewReader("new"))
		return err
	},
	"read tree": func(ctx context.Context, s *Service, id, name string) error {
		archive, err := s.ReadTree(ctx, id, name)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, archive)
		return errors.Join(err, archive.Close())
	},
	"write tree": func(ctx context.Context, s *Service, id, name string) error {
		_, err := s.WriteTree(ctx, id, name, strings.NewReader("tar"))
		return err
	},
}

// Each use asks the gate before the container, about the same path, and carries the
// fence of the claim and the directories of the gate. What is refused is not done,
// and not recorded.
func TestFileUses(t *testing.T) {
	for name, use := range fileUses {
		t.Run(name, func(t *testing.T) {
			stub := &fileStub{within: []string{"/work"}}
			s := stub.service()
			require.NoError(t, use(t.Context(), s, "claim", "/work//sub/./f/"))
			require.Equal(t, runtime.FileRef{Path: "/work/sub/f", Within: []string{"/work"}, Fence: 7}, stub.ref)
			require.Equal(t, "/work/sub/f", stub.gated.Path)
			isRecorded := name != "stat" && name != "list"
			require.Len(t, stub.used, map[bool]int{true: 1}[isRecorded])
			if isRecorded {
				require.Equal(t, stub.gated, stub.used[0])
			}
			require.True(t, strings.HasPrefix(name, string(stub.gated.Action)), stub.gated.Action)

			stub.calls, stub.used = 0, nil
			require.ErrorIs(t, use(t.Context(), s, "ended", "/f"), claim.ErrNotActive)
			for _, bad := range []string{"", "f", "./f", "/..", "/work/../f", "/a/..", "/\x00", "/" + strings.Repeat("a", MaxFilePath)} {
				var refused *runtime.FileError
				require.ErrorAs(t, use(t.Context(), s, "claim", bad), &refused, "%.20q", bad)
				require.Equal(t, runtime.FileInvalid, refused.Reason)
			}
			stub.refuse = &DeniedError{Hook: "guard"}
			for range 100 { // it holds nothing
				require.ErrorIs(t, use(t.Context(), s, "claim", "/f"), stub.refuse)
			}
			require.Zero(t, stub.calls)
			stub.refuse, stub.err = nil, runtime.ErrStaleFence
			for range 100 {
				require.ErrorIs(t, use(t.Context(), s, "claim", "/f"), claim.ErrNotActive)
			}
			stub.err = runtime.ErrTooManyCommands
			require.ErrorIs(t, use(t.Context(), s, "claim", "/f"), ErrTooManyTransfers)
			stub.err = fmt.Errorf("in the container box: %w", &runtime.FileError{Reason: runtime.FileDenied, Path: "/f", Detail: "why"})
			require.EqualError(t, use(t.Context(), s, "claim", "/f"), "/f: why")
			require.Empty(t, stub.used)
		})
	}
}

// A use that the release of its claim has ended has the error of a claim that is not active.
func TestReleaseEndsFileUses(t *testing.T) {
	for name, use := range fileUses {
		for _, err := range []error{runtime.ErrUnknownRun, &runtime.FileError{Reason: runtime.FileOtherReason, Detail: "the program was ended"}} {
			stub := &fileStub{err: err}
			require.ErrorIs(t, use(t.Context(), stub.service(), "claim", "/f"), err, name)
			stub.releases = true
			require.ErrorIs(t, use(t.Context(), stub.service(), "claim", "/f"), claim.ErrNotActive, name)
		}
	}
}

// Transfers at once are bounded for a claim and for the server, and one that has
// ended makes room for one, however often it ends.
func TestTransferBounds(t *testing.T) {
	s := (&fileStub{}).service()
	var open []io.ReadCloser
	read := func(id string) error {
		_, content, err := s.ReadFile(t.Context(), id, "/f", nil)
		if err == nil {
			open = append(open, content)
		}
		return err
	}
	for i := range maxTransfers.total {
		if i%maxTransfers.perClaim == 0 && i > 0 {
			require.ErrorIs(t, read(string(rune('a'+i/maxTransfers.perClaim-1))), ErrTooManyTransfers)
		}
		require.NoError(t, read(string(rune('a'+i/maxTransfers.perClaim))))
	}
	require.ErrorIs(t, read("other"), ErrTooManyTransfers)
	require.NoError(t, fileUses["stat"](t.Context(), s, "other", "/f"), "it is no transfer")
	require.NoError(t, open[0].Close())
	require.NoError(t, open[0].Close())
	require.NoError(t, read("other"))
	require.ErrorIs(t, read("other"), ErrTooManyTransfers)
	for _, content := range open {
		require.NoError(t, content.Close())
	}
	require.Empty(t, s.transfers.byClaim)
	require.Zero(t, s.transfers.all)
}

// A part is of the file that it was chosen for.
func TestPartOfChangingFile(t *testing.T) {
	first, second := runtime.FileInfo{Size: 1}, runtime.FileInfo{Size: 2}
	stub := &fileStub{infos: []runtime.FileInfo{first, second, second}}
	s := stub.service()
	var chosen []runtime.FileInfo
	part := func(info runtime.FileInfo) (offset, length int64, err error) {
		chosen = append(chosen, info)
		return 0, info.Size, nil
	}
	info, content, err := s.ReadFile(t.Context(), "claim", "/f", part)
	require.NoError(t, err)
	require.Equal(t, second, info)
	require.Equal(t, []runtime.FileInfo{first, second}, chosen)
	require.NoError(t, content.Close())
	require.Empty(t, stub.used, "nothing was read")

	stub.infos = nil
	for i := range 20 {
		stub.infos = append(stub.infos, runtime.FileInfo{Modified: time.Unix(int64(i), 0), Size: 1})
	}
	_, _, err = s.ReadFile(t.Context(), "claim", "/f", part)
	var changed *runtime.FileError
	require.ErrorAs(t, err, &changed)
	require.Equal(t, runtime.FileChanged, changed.Reason)
	refused := errors.New("not this one")
	_, _, err = s.ReadFile(t.Context(), "claim", "/f", func(runtime.FileInfo) (int64, int64, error) { return 0, 0, refused })
	require.ErrorIs(t, err, refused)
	require.Zero(t, s.transfers.all)
}

// stuck is content that does not come until its context ends.
type stuck struct{ ended <-chan struct{} }

func (s stuck) Read([]byte) (int, error) {
	<-s.ended
	return 0, context.Canceled
}

// A container that stops a transfer ends it after a time. A client that is slow is
// for others to end.
func TestStalledTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := &fileStub{content: func(ctx context.Context) io.Reader { return stuck{ctx.Done()} }}
		s := stub.service()
		_, content, err := s.ReadFile(t.Context(), "claim", "/f", nil)
		require.NoError(t, err)
		<-time.After(10 * transferIdleLimit)
		begin := time.Now()
		_, err = content.Read(make([]byte, 1))
		require.ErrorIs(t, err, errTransferStall)
		require.Equal(t, transferIdleLimit, time.Since(begin))
		require.NoError(t, content.Close())

		begin = time.Now()
		_, _, err = s.WriteFile(t.Context(), "claim", "/f", 0o644, strings.NewReader("x"))
		require.ErrorIs(t, err, errTransferStall)
		require.Equal(t, transferIdleLimit, time.Since(begin))

		stub.content = nil
		slow := readerFunc(func([]byte) (int, error) {
			<-time.After(10 * transferIdleLimit)
			return 0, io.EOF
		})
		_, _, err = s.WriteFile(t.Context(), "claim", "/f", 0o644, slow)
		require.NoError(t, err)
		endless := readerFunc(func(p []byte) (int, error) {
			<-time.After(transferIdleLimit / 2)
			return 1, t.Context().Err()
		})
		stub.content = func(ctx context.Context) io.Reader {
			return readerFunc(func(p []byte) (int, error) { return endless(p) })
		}
		_, content, err = s.ReadFile(t.Context(), "claim", "/f", nil)
		require.NoError(t, err)
		begin = time.Now()
		for err == nil && time.Since(begin) < 2*maxTransferTime {
			_, err = content.Read(make([]byte, 1))
			if d, ok := content.(*download); ok && d.ctx.Err() != nil {
				err = context.Cause(d.ctx)
			}
		}
		require.ErrorIs(t, err, errTransferTime)
		require.NoError(t, content.Close())
		require.Zero(t, s.transfers.all)
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// An upload whose client fails has the client's error, and is not recorded.
func TestFailedUpload(t *testing.T) {
	stub := &fileStub{}
	s := stub.service()
	gone := errors.New("the client is gone")
	content := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(gone))
	_, _, err := s.WriteFile(t.Context(), "claim", "/f", 0o644, content)
	require.ErrorIs(t, err, gone)
	_, err = s.WriteTree(t.Context(), "claim", "/f", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(gone)))
	require.ErrorIs(t, err, gone)
	require.Empty(t, stub.used)
	_, created, err := s.WriteFile(t.Context(), "claim", "/f", 0o644, strings.NewReader("whole"))
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, int64(5), stub.bytes)
}
