package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/runtime"
)

var (
	fileInfoType = reflect.TypeFor[runtime.FileInfo]()
	filePageType = reflect.TypeFor[FilePage]()
)

// fileHeader is the header with the description of a file. It has at most
// maxFileHeader bytes.
const (
	fileHeader    = "Hostler-File"
	maxFileHeader = 8 << 10
)

// copyBuffer is the size of the pieces in which content is copied.
const copyBuffer = 128 << 10

// errNotModified ends a request whose client has the content.
var errNotModified = errors.New("not modified")

// fileRange is the part of a file that a response has.
type fileRange struct {
	offset, length int64
	isPart         bool
}

// choose returns the part of a file that a request asks for.
func (in *getFileIn) choose(info runtime.FileInfo) (fileRange, error) {
	tag := fileTag(info)
	if hasTag(in.IfNoneMatch, tag) {
		return fileRange{}, errNotModified
	}
	whole := fileRange{length: info.Size}
	if in.Range == "" || in.IfRange != "" && in.IfRange != tag {
		return whole, nil
	}
	part, ok := parseRange(in.Range, info.Size)
	if !ok {
		return whole, nil
	}
	if part.length == 0 {
		p := newProblem(in.request.Context(), RangeNotSatisfiable, fmt.Sprintf("the file has %d bytes", info.Size))
		p.size = strconv.FormatInt(info.Size, 10)
		return fileRange{}, p
	}
	return part, nil
}

// parseRange returns the part of a file that a header names, with length 0 if the
// file ends before it. It reports false for a header that is to be ignored: any that
// is not one range of bytes.
func parseRange(header string, size int64) (fileRange, bool) {
	spec, ok := strings.CutPrefix(header, "bytes=")
	first, last, hasDash := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok || !hasDash {
		return fileRange{}, false
	}
	if first == "" {
		n, err := parseOffset(last)
		if err != nil {
			return fileRange{}, false
		}
		n = min(n, size)
		return fileRange{offset: size - n, length: n, isPart: true}, true
	}
	begin, err := parseOffset(first)
	if err != nil {
		return fileRange{}, false
	}
	end := size
	if last != "" {
		n, err := parseOffset(last)
		if err != nil || n < begin {
			return fileRange{}, false
		}
		if n < size {
			end = n + 1
		}
	}
	if begin >= size {
		return fileRange{isPart: true}, true
	}
	return fileRange{offset: begin, length: end - begin, isPart: true}, true
}

// parseOffset parses digits only.
func parseOffset(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err
}

// fileTag returns the ETag of a file. It is a weak one, because a program can set the
// time of a change. If-Range accepts it nevertheless: a download could not be
// continued otherwise.
func fileTag(info runtime.FileInfo) string {
	return fmt.Sprintf(`W/"%x-%x"`, info.Size, info.Modified.UnixNano())
}

// hasTag reports whether a list of ETags has one.
func hasTag(list, tag string) bool {
	opaque := strings.TrimPrefix(tag, "W/")
	for t := range strings.SplitSeq(list, ",") {
		if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == opaque {
			return true
		}
	}
	return false
}

func (a *API) readFile(ctx context.Context, in *getFileIn) (*streamOut, error) {
	isHead := in.request.Method == http.MethodHead
	var part fileRange
	choose := func(info runtime.FileInfo) (offset, length int64, err error) {
		part, err = in.choose(info)
		if isHead {
			return 0, 0, err
		}
		return part.offset, part.length, err
	}
	if in.Range == "" && in.IfNoneMatch == "" && !isHead {
		choose = nil // one call of the container
	}
	info, content, err := a.o.Files.ReadFile(ctx, in.ID, in.name(), choose)
	if errors.Is(err, errNotModified) {
		return &streamOut{func(huma.Context) {
			setFile(in.writer, info)
			in.writer.WriteHeader(http.StatusNotModified)
		}}, nil
	}
	if err != nil {
		return nil, withHint(err)
	}
	if choose == nil {
		part.length = info.Size
	}
	if info.Size == 0 && !isHead {
		part.length = -1 // the files of the kernel have content and no size
	}
	var begin io.Reader
	if !isHead {
		if begin, err = beginContent(content, part.length); err != nil {
			content.Close() //nolint:errcheck // it was only read
			return nil, err
		}
	}
	return &streamOut{func(huma.Context) {
		defer content.Close() //nolint:errcheck // it was only read
		setFile(in.writer, info)
		setDownload(in.writer, "application/octet-stream", path.Base(in.name()))
		if part.length >= 0 {
			in.writer.Header().Set("Content-Length", strconv.FormatInt(part.length, 10))
		}
		if part.isPart {
			in.writer.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.offset, part.offset+part.length-1, info.Size))
			in.writer.WriteHeader(http.StatusPartialContent)
		}
		if !isHead {
			a.send(ctx, in.writer, begin, part.length)
		}
	}}, nil
}

// beginContent reads the beginning of content: an error there still has a status. A
// negative length is an unknown one.
func beginContent(content io.Reader, length int64) (io.Reader, error) {
	first := int64(1)
	if length >= 0 {
		first = min(length, copyBuffer)
	}
	begin := bufio.NewReaderSize(content, copyBuffer)
	_, err := begin.Peek(int(first))
	if err == io.EOF { //nolint:errorlint // a reader returns io.EOF itself
		if length < 0 {
			return begin, nil
		}
		err = &runtime.FileError{Reason: runtime.FileChanged, Path: "file", Detail: "it became shorter"}
	}
	return begin, err
}

// withHint adds how a directory is read.
func withHint(err error) error {
	if file, ok := errors.AsType[*runtime.FileError](err); ok && file.Reason == runtime.FileNotRegular {
		return fmt.Errorf("%w; a directory is read with list=true or archive=true", err)
	}
	return err
}

// setFile sets the headers that describe a file.
func setFile(w http.ResponseWriter, info runtime.FileInfo) {
	h := w.Header()
	h.Set("ETag", fileTag(info))
	h.Set("Last-Modified", info.Modified.UTC().Format(http.TimeFormat))
	h.Set("Accept-Ranges", "bytes")
	if text := fileHeaderOf(info); text != "" {
		h.Set(fileHeader, text)
	}
}

// fileHeaderOf returns the description of a file in ASCII, or "" if it is too large.
func fileHeaderOf(info runtime.FileInfo) string {
	text, err := json.Marshal(viewFile(info))
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case r < 0x7f:
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	if b.Len() > maxFileHeader {
		return ""
	}
	return b.String()
}

// setDownload sets the headers of content, so that no browser shows or runs what a
// tenant has written.
func setDownload(w http.ResponseWriter, contentType, name string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	disposition := mime.FormatMediaType("attachment", map[string]string{"filename": name})
	if disposition == "" {
		disposition = "attachment"
	}
	h.Set("Content-Disposition", disposition)
}

// send sends content of a length, or until its end if that is negative. Content that
// ends otherwise aborts the response. The error may have the path of a file, so it is
// not logged as one of the server's.
func (a *API) send(ctx context.Context, w io.Writer, content io.Reader, length int64) {
	if length >= 0 {
		content = io.LimitReader(content, length)
	}
	content = untilEnd{ctx, content}
	// Neither side copies by itself, with buffers of its own.
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{content}, make([]byte, copyBuffer))
	if err == nil && (length < 0 || n == length) {
		return
	}
	a.o.Log.DebugContext(ctx, "file not delivered", "request", requestID(ctx), "bytes", n)
	panic(http.ErrAbortHandler)
}
