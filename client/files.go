package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// FileInfo describes a file of a claim's container. Whatever it has is from the
// tenant.
type FileInfo struct {
	Name     string      `json:"name"` // its last part
	Type     FileType    `json:"type"`
	Size     int64       `json:"size"`
	Mode     fs.FileMode `json:"mode"` // permissions
	Modified time.Time   `json:"modified"`
	Target   string      `json:"target,omitempty"` // of a link
	UID      int         `json:"uid"`
	GID      int         `json:"gid"`
}

// FileType is the type of a file.
type FileType string

// The types of files.
const (
	TypeFile      FileType = "file"
	TypeDirectory FileType = "directory"
	TypeLink      FileType = "link"
	TypeOther     FileType = "other"
)

// File is the content of a file that is read.
type File struct {
	io.ReadCloser
	FileInfo // of the whole file
}

// FileRange is a part of a file. The zero value is all of it.
type FileRange struct {
	Offset int64
	Length int64 // 0: until the end
}

// filesPath returns the path of a file. It leaves the slashes, which some proxies do
// not accept in another form.
func filesPath(claim, name string) string {
	return path(path("/v1/claims", claim)+"/files", strings.Split(strings.TrimPrefix(name, "/"), "/")...)
}

// StatFile describes a file of a claim's container. A link is not followed. Names of
// files are absolute, without parts that are empty, . or .., in all these methods.
func (c *Client) StatFile(ctx context.Context, claim, name string) (FileInfo, error) {
	out, _, err := doJSON[FileInfo](ctx, c, call{method: http.MethodGet, path: filesPath(claim, name), query: url.Values{"stat": {"true"}}})
	return out, err
}

// ListFiles returns the entries of a directory, in the order of their names' bytes.
// It requests them in parts. An error is the last of what it yields.
func (c *Client) ListFiles(ctx context.Context, claim, name string) iter.Seq2[FileInfo, error] {
	return func(yield func(FileInfo, error) bool) {
		query := url.Values{"list": {"true"}, "limit": {"1000"}}
		for {
			list, _, err := doJSON[page[FileInfo]](ctx, c, call{method: http.MethodGet, path: filesPath(claim, name), query: query})
			if err != nil {
				yield(FileInfo{}, err)
				return
			}
			for _, info := range list.Items {
				if !yield(info, nil) {
					return
				}
			}
			if list.Next == "" {
				return
			}
			query.Set("after", list.Next)
		}
	}
}

// OpenFile returns the content of a file, or the part of it, following links. Reading
// returns io.EOF only after the last byte. A part that begins at or after the end is
// an *Error with CodeRangeNotSatisfiable. The caller closes the file.
func (c *Client) OpenFile(ctx context.Context, claim, name string, part FileRange) (*File, error) {
	req := call{method: http.MethodGet, path: filesPath(claim, name), header: http.Header{"Accept": {"application/octet-stream"}}}
	if part != (FileRange{}) {
		end := ""
		if part.Length > 0 {
			end = strconv.FormatInt(part.Offset+part.Length-1, 10)
		}
		req.header.Set("Range", fmt.Sprintf("bytes=%d-%s", part.Offset, end))
	}
	resp, err := c.do(ctx, req)
	if err != nil {
		return nil, err
	}
	f := &File{ReadCloser: resp.Body}
	if err := json.Unmarshal([]byte(resp.Header.Get("Hostler-File")), &f.FileInfo); err != nil {
		resp.Body.Close() //nolint:errcheck // it was only read
		return nil, fmt.Errorf("read the description of a file of %s: %w", c.name, err)
	}
	return f, nil
}

// WriteFile replaces a file, or creates it with missing directories. The file has the
// new content when all of it has arrived; if this method fails, or content does, the
// old one stays. It is not repeated when the connection breaks.
func (c *Client) WriteFile(ctx context.Context, claim, name string, mode fs.FileMode, content io.Reader) (FileInfo, error) {
	return c.upload(ctx, claim, name, url.Values{"mode": {fmt.Sprintf("%04o", mode.Perm())}}, "application/octet-stream", content)
}

// WriteTree unpacks a tar stream into a directory, which it creates if it is missing.
// What was unpacked before an error stays.
func (c *Client) WriteTree(ctx context.Context, claim, name string, archive io.Reader) (FileInfo, error) {
	return c.upload(ctx, claim, name, url.Values{"archive": {"true"}}, "application/x-tar", archive)
}

func (c *Client) upload(ctx context.Context, claim, name string, query url.Values, contentType string, content io.Reader) (FileInfo, error) {
	out, _, err := doJSON[FileInfo](ctx, c, call{
		method: http.MethodPut, path: filesPath(claim, name), query: query, content: content, noRetry: true,
		header: http.Header{"Content-Type": {contentType}},
	})
	return out, err
}

// ReadTree returns a tar stream of a directory or a file, with names relative to the
// directory. Reading returns io.EOF only after its end. Nothing in it is to be
// trusted: a tenant's program can put any name and link there. The caller closes it.
func (c *Client) ReadTree(ctx context.Context, claim, name string) (io.ReadCloser, error) {
	resp, err := c.do(ctx, call{method: http.MethodGet, path: filesPath(claim, name), query: url.Values{"archive": {"true"}}})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// RemoveFile removes a file, a link or an empty directory, and, with recursive, a
// directory with all that is in it. It is not repeated when the connection breaks.
func (c *Client) RemoveFile(ctx context.Context, claim, name string, recursive bool) error {
	_, _, err := doJSON[struct{}](ctx, c, call{
		method: http.MethodDelete, path: filesPath(claim, name), query: url.Values{"recursive": {strconv.FormatBool(recursive)}}, noRetry: true,
	})
	return err
}
