package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// dirBucket stores objects as files below a directory. Neither keys nor links
// can lead out of it.
type dirBucket struct {
	root *os.Root
}

var _ Bucket = (*dirBucket)(nil)

// The modes of files and directories. No other user may read a tenant's state.
const (
	fileMode = 0o600
	dirMode  = 0o700
)

// openDir opens a directory, and creates it if it does not exist.
func openDir(dir string) (*dirBucket, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &dirBucket{root}, nil
}

// Close closes the directory.
func (b *dirBucket) Close() error { return b.root.Close() }

// Put implements Bucket.
func (b *dirBucket) Put(ctx context.Context, key string, r io.Reader) error {
	return b.writeFile(ctx, key, r)
}

// Create implements Bucket.
func (b *dirBucket) Create(ctx context.Context, key string, data []byte) error {
	return b.writeFile(ctx, key, strings.NewReader(string(data)))
}

// partialPrefix begins the name of a file that is being written.
const partialPrefix = ".part-"

// writeFile writes a temporary file, and links it to its name when it is
// completely on the disk. A link, unlike a rename, fails if the name exists.
func (b *dirBucket) writeFile(ctx context.Context, key string, r io.Reader) error {
	dir := path.Dir(key)
	if err := b.makeDirs(dir); err != nil {
		return err
	}
	tmp := path.Join(dir, partialPrefix+rand.Text())
	f, err := b.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer b.root.Remove(tmp) //nolint:errcheck // Prune removes it later
	_, err = io.Copy(f, &ctxReader{ctx, r})
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	err = b.root.Link(tmp, key)
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	if err != nil {
		return err
	}
	return b.syncDir(dir)
}

// makeDirs creates a directory and its parents, and flushes their entries to
// the disk.
func (b *dirBucket) makeDirs(dir string) error {
	if info, err := b.root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if dir == "." {
		return nil
	}
	if err := b.makeDirs(path.Dir(dir)); err != nil {
		return err
	}
	if err := b.root.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return b.syncDir(path.Dir(dir))
}

// syncDir flushes the entries of a directory to the disk, so that they survive
// a power failure.
func (b *dirBucket) syncDir(dir string) error {
	f, err := b.root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// ctxReader is a reader that ends with its context.
type ctxReader struct {
	ctx  context.Context //nolint:containedctx // of the one call that reads it
	from io.Reader
}

func (e *ctxReader) Read(p []byte) (int, error) {
	n, err := e.from.Read(p)
	if e.ctx.Err() != nil {
		return n, context.Cause(e.ctx) // also in place of io.EOF
	}
	return n, err
}

// Get implements Bucket.
func (b *dirBucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	f, _, err := b.open(key)
	if err != nil {
		return nil, err
	}
	return &objectReader{&ctxReader{ctx, f}, f}, nil
}

// GetRange implements Bucket.
func (b *dirBucket) GetRange(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error) {
	if err := CheckRange(offset, size); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f, has, err := b.open(key)
	if err != nil {
		return nil, err
	}
	if has < offset+size {
		_ = f.Close()
		return nil, fmt.Errorf("the object has %d bytes: %w", has, io.ErrUnexpectedEOF)
	}
	section := &ctxReader{ctx, io.NewSectionReader(f, offset, size)}
	return &objectReader{RangeReader(section, size, io.ErrUnexpectedEOF), f}, nil
}

// objectReader reads an object from a file.
type objectReader struct {
	io.Reader
	io.Closer
}

// open opens the file of an object, and returns its size.
func (b *dirBucket) open(key string) (*os.File, int64, error) {
	// To open a pipe would wait for a writer, and no context ends that.
	f, err := b.root.OpenFile(key, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, ErrNoObject
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNoObject
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// List implements Bucket.
func (b *dirBucket) List(ctx context.Context, prefix string, each func(Object) error) error {
	// The part after the last slash need not be the whole name of a directory.
	dir := "."
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		dir = prefix[:i]
	}
	return fs.WalkDir(b.root.FS(), dir, func(key string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed in the meantime, or never existed
		}
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() || !strings.HasPrefix(key, prefix) {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return each(Object{Key: key, Size: info.Size(), Time: info.ModTime()})
	})
}

// Delete implements Bucket. Directories stay, because removing one while a file
// is put into it would fail the put.
func (b *dirBucket) Delete(_ context.Context, key string) error {
	if err := b.root.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}
