package runtime

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// TenantFiles works on files with the rights of the container's user, as a program
// of the tenant would: a link leads nowhere that the user could not go. The
// container must be running. Whatever these methods return of a file is from the
// tenant. Errors about a file are *FileError. ErrUnsupported means that an older
// server created the container.
type TenantFiles interface {
	// StatFile describes a file. The last part of the path is not followed if it is
	// a link.
	StatFile(ctx context.Context, id string, ref FileRef) (FileInfo, error)
	// ListFiles describes the entries of a directory whose names come after the
	// given one, in the order of their names' bytes, at most limit of them: fewer
	// mean that there are no more. A limit outside of 1 to MaxFileList is
	// MaxFileList. A path that is a link to a directory is followed.
	ListFiles(ctx context.Context, id string, ref FileRef, after string, limit int) ([]FileInfo, error)
	// ReadFile opens a file, following links, and returns its content from offset
	// on, at most length bytes; a negative length means all. An offset beyond the
	// end is FileInvalid. The size is that of the content, also of a file that the
	// kernel computes when it is read. The caller closes it, which ends the program
	// that reads. A body is not read again when the connection is lost.
	// Reading returns io.EOF only at the end of the range; a file that became
	// shorter is an error.
	ReadFile(ctx context.Context, id string, ref FileRef, offset, length int64) (FileInfo, io.ReadCloser, error)
	// WriteFile replaces a file, or creates it with the mode, and missing
	// directories too. The new content appears as a whole, under the name, when
	// all of it has arrived; until then the old one stays. A name that is a link is
	// replaced.
	WriteFile(ctx context.Context, id string, ref FileRef, mode fs.FileMode, content io.Reader) (FileInfo, error)
	// RemoveFile removes a file, a link, an empty directory, or, with recursive, a
	// directory with all that is in it. It follows no link. The root, an allowed
	// directory itself and a mount point are FileInvalid.
	RemoveFile(ctx context.Context, id string, ref FileRef, recursive bool) error
	// ReadTree packs a directory, or a single file, as CopyOut does.
	ReadTree(ctx context.Context, id string, ref FileRef) (io.ReadCloser, error)
	// WriteTree unpacks a tar stream into a directory, which it creates if it is
	// missing, as CopyIn does. What was unpacked before an error stays.
	WriteTree(ctx context.Context, id string, ref FileRef, archive io.Reader) error
}

// MaxFileList bounds the entries that ListFiles returns at once.
const MaxFileList = 1000

// FileRef names a file of a tenant.
type FileRef struct {
	Path string // absolute in the container
	// Within are directories, absolute. The path must be in or below one of them,
	// and lead to a file there, whatever links are on the way: else it is
	// FileOutside. So are absolute links, wherever they lead, and a directory of the
	// list that is a link or below one: a tenant may have made it. A hard link is a
	// file of the directory that it is in. Empty means no such limit.
	Within []string
	Fence  int64 // of the claim
}

// FileInfo describes a file of a container.
type FileInfo struct {
	Name     string      `json:"name"` // its last part: any bytes but NUL and /
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

// FileError is why a file could not be worked on.
type FileError struct {
	Reason FileReason
	Path   string
	Detail string
}

// FileReason identifies the reason of a FileError.
type FileReason string

// The reasons.
const (
	FileNotFound    FileReason = "not_found"
	FileDenied      FileReason = "denied"        // the user has no permission
	FileNotRegular  FileReason = "not_a_file"    // a directory, a device, a pipe
	FileNotDir      FileReason = "not_directory" // also in the middle of the path
	FileNotEmpty    FileReason = "not_empty"
	FileOutside     FileReason = "outside" // not in FileRef.Within
	FileInvalid     FileReason = "invalid" // a path that no file can have, or a bad range
	FileNoSpace     FileReason = "no_space"
	FileChanged     FileReason = "changed" // while it was read
	FileReadOnly    FileReason = "read_only"
	FileOtherReason FileReason = "failed"
)

func (e *FileError) Error() string { return fmt.Sprintf("%s: %s", e.Path, e.Detail) }

// Is reports whether target is the error of the contract for the reason.
func (e *FileError) Is(target error) bool {
	return target == ErrFileNotFound && e.Reason == FileNotFound
}
