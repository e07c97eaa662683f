package apitest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"testing/iotest"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// File is a file of every claim's container.
type File struct {
	runtime.FileInfo
	Content []byte
}

// files are the files of a Backend, by path. The root is always there. Links are not
// followed.
type files struct {
	runtime.Commander
	runtime.Ports
	*Backend
}

func (b *Backend) access() *access.Service {
	return access.New(access.Options{
		Claims: fileClaims{b}, Workloads: noWorkloads{}, Runtime: files{Backend: b}, Gates: gates{b}, Uses: uses{b},
		Log: slog.New(slog.DiscardHandler),
	})
}

type fileClaims struct{ *Backend }

func (b fileClaims) Claim(_ context.Context, id string) (claim.Claim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.Claims, func(c claim.Claim) bool { return c.ID == id })
	if i < 0 {
		return claim.Claim{}, claim.ErrClaimNotFound
	}
	return b.Claims[i], nil
}

func (b fileClaims) Touch(ctx context.Context, id string) (claim.Claim, error) {
	return b.Claim(ctx, id)
}

type noWorkloads struct{}

func (noWorkloads) Current(context.Context, string) (*workload.Workload, pool.Record, error) {
	return nil, pool.Record{}, pool.ErrWorkloadNotFound
}

// gates refuse what Fail has made "gate" fail with.
type gates struct{ *Backend }

func (b gates) Exec(context.Context, access.Grant, access.CommandUse) error {
	return b.injectedError("gate")
}

func (b gates) File(context.Context, access.Grant, access.FileUse) ([]string, error) {
	return nil, b.injectedError("gate")
}

func (b gates) Request(context.Context, access.Grant, access.PortUse) error {
	return b.injectedError("gate")
}

// uses appends the uses of files to Requests.
type uses struct{ *Backend }

// FileUsed is a use of a file.
type FileUsed struct {
	access.FileUse
	Bytes int64
}

func (uses) CommandStarting(context.Context, access.Grant, access.CommandUse) error { return nil }
func (uses) CommandEnded(access.Grant, string, runtime.Result, error)               {}
func (uses) RequestCompleted(access.Grant, access.PortUse, access.RequestDone)      {}

func (b uses) FileUsed(_ access.Grant, f access.FileUse, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Requests = append(b.Requests, FileUsed{f, n})
}

// LastFileUse returns the last use of a file, and how many there were. A download is
// recorded after its client has it.
func (b *Backend) LastFileUse() (last FileUsed, count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.Requests {
		if use, ok := r.(FileUsed); ok {
			last, count = use, count+1
		}
	}
	return last, count
}

// PutFile puts a file, with its directories, into the containers.
func (b *Backend) PutFile(name, content string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(name, runtime.FileInfo{Type: runtime.TypeFile, Mode: 0o644}, []byte(content))
}

// FileAt returns a file, also while a request that failed may still be handled.
func (b *Backend) FileAt(name string) (f File, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok = b.Files[name]
	return f, ok
}

// put puts a file. The caller holds the lock.
func (b *Backend) put(name string, info runtime.FileInfo, content []byte) runtime.FileInfo {
	for dir := path.Dir(name); b.Files[dir].Name == ""; dir = path.Dir(dir) {
		b.Files[dir] = File{FileInfo: runtime.FileInfo{Name: path.Base(dir), Type: runtime.TypeDirectory, Mode: 0o755, Modified: Time}}
	}
	info.Name, info.Size = path.Base(name), int64(len(content))
	if info.Modified.IsZero() {
		info.Modified = Time
	}
	b.Files[name] = File{info, content}
	return info
}

// file returns a file. The caller holds the lock.
func (b files) file(ref runtime.FileRef) (File, error) {
	if err := b.Errors["files"]; err != nil {
		return File{}, err
	}
	b.put("/tmp", runtime.FileInfo{Type: runtime.TypeDirectory, Mode: 0o777}, nil)
	f, ok := b.Files[ref.Path]
	if !ok {
		return File{}, &runtime.FileError{Reason: runtime.FileNotFound, Path: ref.Path, Detail: "no such file or directory"}
	}
	return f, nil
}

func (b files) StatFile(_ context.Context, _ string, ref runtime.FileRef) (runtime.FileInfo, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, err := b.file(ref)
	return f.FileInfo, err
}

// below returns the paths in and below a directory, in order. The caller holds the
// lock.
func (b files) below(dir string) []string {
	prefix := strings.TrimSuffix(dir, "/") + "/"
	names := slices.Sorted(maps.Keys(b.Files))
	return slices.DeleteFunc(names, func(n string) bool { return n == "/" || !strings.HasPrefix(n, prefix) })
}

func (b files) ListFiles(_ context.Context, _ string, ref runtime.FileRef, after string, limit int) ([]runtime.FileInfo, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, err := b.file(ref)
	if err == nil && f.Type != runtime.TypeDirectory {
		err = &runtime.FileError{Reason: runtime.FileNotDir, Path: ref.Path, Detail: "not a directory"}
	}
	if err != nil {
		return nil, err
	}
	var list []runtime.FileInfo
	for _, n := range b.below(ref.Path) {
		if path.Dir(n) == ref.Path && path.Base(n) > after && len(list) < limit {
			list = append(list, b.Files[n].FileInfo)
		}
	}
	return list, nil
}

func (b files) ReadFile(_ context.Context, _ string, ref runtime.FileRef, offset, length int64) (runtime.FileInfo, io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, err := b.file(ref)
	if err == nil && f.Type != runtime.TypeFile {
		err = &runtime.FileError{Reason: runtime.FileNotRegular, Path: ref.Path, Detail: "not a regular file"}
	}
	if err == nil && offset > f.Size {
		err = &runtime.FileError{Reason: runtime.FileInvalid, Path: ref.Path, Detail: "the range is not in it"}
	}
	if err != nil {
		return f.FileInfo, nil, err
	}
	part := f.Content[offset:]
	if length >= 0 {
		part = part[:min(length, int64(len(part)))]
	}
	return f.FileInfo, b.content(part), nil
}

// content returns content, or half of it and the error that Fail has made "content"
// fail with. The caller holds the lock.
func (b files) content(all []byte) io.ReadCloser {
	if err := b.Errors["content"]; err != nil {
		return io.NopCloser(io.MultiReader(bytes.NewReader(all[:len(all)/2]), iotest.ErrReader(err)))
	}
	return io.NopCloser(bytes.NewReader(all))
}

func (b files) WriteFile(_ context.Context, _ string, ref runtime.FileRef, mode fs.FileMode, content io.Reader) (runtime.FileInfo, error) {
	if err := b.injectedError("files"); err != nil {
		return runtime.FileInfo{}, err
	}
	all, err := io.ReadAll(content)
	if err != nil {
		return runtime.FileInfo{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.put(ref.Path, runtime.FileInfo{Type: runtime.TypeFile, Mode: mode}, all), nil
}

func (b files) RemoveFile(_ context.Context, _ string, ref runtime.FileRef, recursive bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.file(ref); err != nil {
		return err
	}
	below := b.below(ref.Path)
	if len(below) > 0 && !recursive {
		return &runtime.FileError{Reason: runtime.FileNotEmpty, Path: ref.Path, Detail: "directory not empty"}
	}
	for _, n := range append(below, ref.Path) {
		delete(b.Files, n)
	}
	return nil
}

func (b files) ReadTree(_ context.Context, _ string, ref runtime.FileRef) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, err := b.file(ref)
	if err != nil {
		return nil, err
	}
	names := b.below(ref.Path)
	if f.Type != runtime.TypeDirectory {
		names = []string{ref.Path}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, n := range names {
		f, rel := b.Files[n], strings.TrimPrefix(n, strings.TrimSuffix(ref.Path, "/")+"/")
		if n == ref.Path {
			rel = f.Name
		}
		h := &tar.Header{Name: rel, Mode: int64(f.Mode), Size: f.Size, ModTime: f.Modified, Typeflag: tar.TypeReg, Linkname: f.Target}
		if f.Type != runtime.TypeFile {
			h.Typeflag = map[runtime.FileType]byte{runtime.TypeDirectory: tar.TypeDir, runtime.TypeLink: tar.TypeSymlink, runtime.TypeOther: tar.TypeFifo}[f.Type]
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.content(out.Bytes()), nil
}

func (b files) WriteTree(_ context.Context, _ string, ref runtime.FileRef, archive io.Reader) error {
	if err := b.injectedError("files"); err != nil {
		return err
	}
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, archive)
			b.mu.Lock()
			defer b.mu.Unlock()
			if _, ok := b.Files[ref.Path]; !ok {
				b.put(ref.Path, runtime.FileInfo{Type: runtime.TypeDirectory, Mode: 0o755}, nil)
			}
			return err
		}
		if err != nil {
			return errors.Join(runtime.ErrBadArchive, err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		kind := map[byte]runtime.FileType{tar.TypeReg: runtime.TypeFile, tar.TypeDir: runtime.TypeDirectory, tar.TypeSymlink: runtime.TypeLink}[h.Typeflag]
		if kind == "" {
			return runtime.ErrBadArchive
		}
		b.mu.Lock()
		b.put(path.Join(ref.Path, h.Name), runtime.FileInfo{Type: kind, Mode: fs.FileMode(h.Mode).Perm(), Modified: h.ModTime, Target: h.Linkname}, content)
		b.mu.Unlock()
	}
}
