package shim

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hostler/hostler/runtime"
)

// FileCommand is the first argument of the program AskBinaryName when the server
// runs it, as the container's user, to work on files. The second is a FileOp, and
// the third a FileRequest as JSON.
const FileCommand = "_file"

// FileOp is what the program does.
type FileOp string

// The operations. All print FileFrames. Those that write read frames of FileData
// and one of FileEnd from stdin: without it, what was sent is not complete.
const (
	FileStat   FileOp = "stat"   // prints a FileEntry
	FileList   FileOp = "list"   // prints one for each entry
	FileRead   FileOp = "read"   // prints one and the content
	FileWrite  FileOp = "write"  // prints one at the end
	FileRemove FileOp = "remove" // prints none
	FileTar    FileOp = "tar"    // prints an archive
	FileUntar  FileOp = "untar"  // reads an archive
)

// FileRequest is the argument of an operation. Names may be any bytes, which JSON
// has only for []byte.
type FileRequest struct {
	Root      string   `json:"root,omitempty"` // confines all paths; empty for "/"
	Path      []byte   `json:"path"`           // absolute and clean
	Within    [][]byte `json:"within,omitempty"`
	After     []byte   `json:"after,omitempty"`
	Limit     int      `json:"limit,omitempty"`
	Offset    int64    `json:"offset,omitempty"`
	Length    int64    `json:"length,omitempty"` // negative for all
	Mode      uint32   `json:"mode,omitempty"`
	Recursive bool     `json:"recursive,omitempty"`
}

// MaxFileRequest bounds an encoded FileRequest: the kernel allows 128 KiB for an
// argument.
const MaxFileRequest = 100 << 10

// Limits of the names of files, which are those of the kernel.
const (
	MaxFilePath = 4096
	MaxFileName = 255
)

// FileEntry is a runtime.FileInfo as sent.
type FileEntry struct {
	Name     []byte           `json:"name"`
	Type     runtime.FileType `json:"type"`
	Size     int64            `json:"size"`
	Mode     uint32           `json:"mode"`
	Modified int64            `json:"modified"` // seconds
	Nano     int64            `json:"nano"`
	Target   []byte           `json:"target,omitempty"`
	UID      int              `json:"uid"`
	GID      int              `json:"gid"`
}

// FileResult ends the output. An empty Reason means success.
type FileResult struct {
	Reason runtime.FileReason `json:"reason,omitempty"`
	Detail string             `json:"detail,omitempty"`
}

// FileBadArchive is the reason for runtime.ErrBadArchive.
const FileBadArchive runtime.FileReason = "bad_archive"

// FileFrame is the kind of a frame: a byte, the length of the payload in four bytes,
// and the payload.
type FileFrame byte

// The kinds of frames.
const (
	FileData    FileFrame = 'D' // content, at most MaxData bytes
	FileInfo    FileFrame = 'I' // a FileEntry
	FileWorking FileFrame = 'W' // nothing: the program works on what takes long
	FileEnd     FileFrame = 'E' // a FileResult, nothing from the server: all was sent
)

// maxFileJSON bounds an encoded FileEntry or FileResult: base64 makes a name and
// a target longer by a third.
const maxFileJSON = 8 << 10

// errFileStream is an error of what the other end sends.
var errFileStream = errors.New("malformed frame")

// FileWriter writes frames.
type FileWriter struct {
	w   io.Writer
	buf []byte
}

// NewFileWriter returns a writer. A frame is one write.
func NewFileWriter(w io.Writer) *FileWriter { return &FileWriter{w: w} }

// Frame writes a frame with a payload.
func (w *FileWriter) Frame(kind FileFrame, payload []byte) error {
	w.buf = append(w.buf[:0], byte(kind))
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(payload))) //nolint:gosec // at most MaxData
	w.buf = append(w.buf, payload...)
	_, err := w.w.Write(w.buf)
	return err
}

// JSON writes a frame with a value.
func (w *FileWriter) JSON(kind FileFrame, value any) error {
	payload, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return w.Frame(kind, payload)
}

// Write writes content, in frames.
func (w *FileWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		part := p[done:min(len(p), done+MaxData)]
		if err := w.Frame(FileData, part); err != nil {
			return done, err
		}
		done += len(part)
	}
	return done, nil
}

// FileReader reads frames of the other end, which a tenant may control.
type FileReader struct {
	r    *bufio.Reader
	left int // of the current frame
}

// NewFileReader returns a reader.
func NewFileReader(r io.Reader) *FileReader {
	return &FileReader{r: bufio.NewReaderSize(r, MaxData)}
}

// Next discards what is left of the current frame, and returns the kind of the
// next one. Without one it returns io.ErrUnexpectedEOF.
func (r *FileReader) Next() (FileFrame, error) {
	if _, err := io.CopyN(io.Discard, r.r, int64(r.left)); err != nil {
		return 0, truncated(err)
	}
	r.left = 0
	var header [5]byte
	if _, err := io.ReadFull(r.r, header[:]); err != nil {
		return 0, truncated(err)
	}
	kind, size := FileFrame(header[0]), binary.BigEndian.Uint32(header[1:])
	limit, known := maxFilePayload[kind]
	if !known || size > limit {
		return 0, fmt.Errorf("%w: %q with %d bytes", errFileStream, header[0], size)
	}
	r.left = int(size)
	return kind, nil
}

// maxFilePayload bounds the payloads.
var maxFilePayload = map[FileFrame]uint32{
	FileData: MaxData, FileInfo: maxFileJSON, FileWorking: 0, FileEnd: maxFileJSON,
}

// Read reads the payload of the current frame, up to io.EOF.
func (r *FileReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.r.Read(p[:min(len(p), r.left)])
	r.left -= n
	if n > 0 {
		return n, nil
	}
	return 0, truncated(err)
}

// JSON decodes the payload of the current frame.
func (r *FileReader) JSON(value any) error {
	payload, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(payload, value); err != nil {
		return fmt.Errorf("%w: %w", errFileStream, err)
	}
	return nil
}

// truncated returns the error for a stream that has ended within a frame or
// before FileEnd.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// FileContent reads the content of frames of FileData. It returns io.EOF only
// after a frame of FileEnd. Any other frame is an error.
type FileContent struct {
	Frames *FileReader
	err    error // returned by every further Read
}

// Read implements io.Reader.
func (c *FileContent) Read(p []byte) (int, error) {
	for c.err == nil {
		n, err := c.Frames.Read(p)
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		if !errors.Is(err, io.EOF) {
			c.err = err
			break
		}
		kind, err := c.Frames.Next()
		switch {
		case err != nil:
			c.err = err
		case kind == FileEnd:
			c.err = io.EOF
		case kind != FileData:
			c.err = fmt.Errorf("%w: %q in the content", errFileStream, kind)
		}
	}
	return 0, c.err
}
