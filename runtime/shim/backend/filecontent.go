package backend

import (
	"errors"
	"io"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// readRange receives the description of a file, and returns its content.
func (f *fileCommand) readRange(offset, length int64) (runtime.FileInfo, *fileContent, error) {
	kind, err := f.next()
	if err != nil {
		return runtime.FileInfo{}, nil, err
	}
	if kind == shim.FileEnd {
		if err = f.result(); err == nil {
			err = errForged
		}
		return runtime.FileInfo{}, nil, err
	}
	if kind != shim.FileInfo {
		return runtime.FileInfo{}, nil, errForged
	}
	info, err := f.entry()
	if err != nil {
		return runtime.FileInfo{}, nil, err
	}
	if info.Type != runtime.TypeFile || offset < 0 || offset > info.Size {
		return runtime.FileInfo{}, nil, errForged
	}
	left := info.Size - offset
	if length >= 0 {
		left = min(left, length)
	}
	return info, &fileContent{command: f, left: left}, nil
}

// fileContent is the content that the program prints, of an exact length or, with
// a negative left, of any.
type fileContent struct {
	command *fileCommand
	left    int64
	err     error // returned by every further Read
}

// begin waits for the first content, so that an error becomes that of the call.
func (c *fileContent) begin() error {
	err := c.nextFrame()
	if errors.Is(err, io.EOF) {
		return errForged // an empty archive has an end as well
	}
	return err
}

// Read implements io.Reader. It returns io.EOF only when the program has confirmed
// that all is complete.
func (c *fileContent) Read(p []byte) (int, error) {
	for c.err == nil && len(p) > 0 {
		n, err := c.command.frames.Read(p)
		if n > 0 {
			return c.count(n)
		}
		if errors.Is(err, io.EOF) {
			err = c.nextFrame()
		} else {
			err = c.command.frameError(err)
		}
		c.err = err
	}
	return 0, c.err
}

// count counts what was read.
func (c *fileContent) count(n int) (int, error) {
	if c.left < 0 {
		return n, nil
	}
	if int64(n) > c.left {
		c.err = errForged
		return 0, c.err
	}
	c.left -= int64(n)
	return n, nil
}

// nextFrame receives the next frame, and returns io.EOF at the end.
func (c *fileContent) nextFrame() error {
	kind, err := c.command.next()
	switch {
	case err != nil:
		return err
	case kind == shim.FileData:
		return nil
	case kind != shim.FileEnd:
		return errForged
	}
	if err = c.command.result(); err != nil {
		return err
	}
	c.command.close()
	if c.left > 0 {
		return errForged
	}
	return io.EOF
}

// Close ends the program, unless it has printed everything.
func (c *fileContent) Close() error {
	c.command.close()
	if c.err == nil {
		c.err = errClosed
	}
	return nil
}

// errClosed is the error of a read after Close.
var errClosed = errors.New("the file is closed")
