package backend

import (
	"errors"
	"io/fs"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// fileReasons are the reasons that the program may have.
var fileReasons = map[runtime.FileReason]bool{
	runtime.FileNotFound: true, runtime.FileDenied: true, runtime.FileNotRegular: true, runtime.FileNotDir: true,
	runtime.FileNotEmpty: true, runtime.FileOutside: true, runtime.FileInvalid: true, runtime.FileNoSpace: true,
	runtime.FileChanged: true, runtime.FileReadOnly: true, runtime.FileOtherReason: true,
}

// asFileError adds the path to an error about a file.
func asFileError(ref runtime.FileRef, err error) error {
	failure, ok := errors.AsType[*runtime.FileError](err)
	if !ok {
		return err
	}
	return &runtime.FileError{Reason: failure.Reason, Path: ref.Path, Detail: failure.Detail}
}

// newFileInfo checks and converts a description of the program.
func newFileInfo(e shim.FileEntry) (runtime.FileInfo, error) {
	name, target := string(e.Name), string(e.Target)
	isLink := e.Type == runtime.TypeLink
	switch {
	case len(name) > shim.MaxFileName || strings.ContainsRune(name, 0),
		len(target) > shim.MaxFilePath || strings.ContainsRune(target, 0) || target != "" && !isLink,
		!isLink && e.Type != runtime.TypeFile && e.Type != runtime.TypeDirectory && e.Type != runtime.TypeOther,
		e.Size < 0, !isID(e.UID) || !isID(e.GID):
		return runtime.FileInfo{}, errForged
	}
	return runtime.FileInfo{
		Name: name, Type: e.Type, Size: e.Size, Mode: fs.FileMode(e.Mode).Perm(), Modified: fileTime(e.Modified, e.Nano),
		Target: target, UID: e.UID, GID: e.GID,
	}, nil
}

// isFileName reports whether a directory can have an entry of that name.
func isFileName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.Contains(name, "/")
}

func isID(id int) bool { return id >= 0 && id <= math.MaxUint32 }

// fileTime returns the time of a file. A tenant can set one that JSON does not
// have: it becomes the nearest one.
func fileTime(seconds, nano int64) time.Time {
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	seconds = min(max(seconds, first.Unix()), last.Unix())
	return time.Unix(seconds, min(max(nano, 0), int64(time.Second)-1)).UTC()
}

// maxShownText bounds a detail, in bytes.
const maxShownText = 512

// shownText returns a text of a tenant as it may be shown.
func shownText(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), maxShownText)], "�"))
}
