package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/runtime"
)

// MaxFilePath bounds the path of a file in bytes. It is that of Linux, without the
// byte at its end.
const MaxFilePath = 4095

// Bounds of the uses of files. A transfer is one whose duration depends on its
// client.
var (
	maxTransfers = bounds{perClaim: 8, perTenant: 32, total: 64}
	maxFileCalls = bounds{perClaim: 8, perTenant: 64, total: 128}
)

// Bounds in time. A container can delay what is done with its files.
const (
	fileCallTimeout   = time.Minute
	removalTimeout    = 10 * time.Minute
	claimTimeout      = 5 * time.Second
	maxTransferTime   = 6 * time.Hour
	transferIdleLimit = time.Minute     // without a byte from the container, or to it
	transferEndLimit  = 5 * time.Minute // from the last byte to the file
)

// Causes of contexts.
var (
	errFileTimeout   = fmt.Errorf("the container did not answer in time: %w", context.DeadlineExceeded)
	errTransferTime  = fmt.Errorf("the transfer took longer than %s: %w", maxTransferTime, context.DeadlineExceeded)
	errTransferStall = fmt.Errorf("the container stopped the transfer: %w", context.DeadlineExceeded)
)

// Part chooses the part of a file that is read, as for runtime.TenantFiles.ReadFile.
// Its error is returned in place of the content.
type Part func(runtime.FileInfo) (offset, length int64, err error)

// maxPartAttempts bounds how often a file that changes is opened.
const maxPartAttempts = 3

// StatFile describes a file of a claim's container, without following a link.
// Errors of all methods for files: those of Enter, ErrTooManyTransfers,
// *DeniedError, *runtime.FileError and other errors of package runtime.
func (s *Service) StatFile(ctx context.Context, claimID, name string) (runtime.FileInfo, error) {
	u, err := s.useFile(ctx, claimID, FileUse{FileStat, name}, s.fileCalls)
	if err != nil {
		return runtime.FileInfo{}, err
	}
	defer u.end()
	ctx, cancel := context.WithTimeoutCause(ctx, fileCallTimeout, errFileTimeout)
	defer cancel()
	info, err := s.o.Runtime.StatFile(ctx, u.grant.Container(), u.ref)
	return info, s.fileError(ctx, claimID, err)
}

// ListFiles describes the entries of a directory, as runtime.TenantFiles.ListFiles.
func (s *Service) ListFiles(ctx context.Context, claimID, name, after string, limit int) ([]runtime.FileInfo, error) {
	u, err := s.useFile(ctx, claimID, FileUse{FileList, name}, s.fileCalls)
	if err != nil {
		return nil, err
	}
	defer u.end()
	ctx, cancel := context.WithTimeoutCause(ctx, fileCallTimeout, errFileTimeout)
	defer cancel()
	list, err := s.o.Runtime.ListFiles(ctx, u.grant.Container(), u.ref, after, limit)
	return list, s.fileError(ctx, claimID, err)
}

// RemoveFile removes a file, as runtime.TenantFiles.RemoveFile.
func (s *Service) RemoveFile(ctx context.Context, claimID, name string, recursive bool) error {
	u, err := s.useFile(ctx, claimID, FileUse{FileRemove, name}, s.fileCalls)
	if err != nil {
		return err
	}
	defer u.end()
	defer s.Hold(ctx, u.grant)()
	ctx, cancel := context.WithTimeoutCause(ctx, removalTimeout, errFileTimeout)
	defer cancel()
	if err := s.o.Runtime.RemoveFile(ctx, u.grant.Container(), u.ref, recursive); err != nil {
		return s.fileError(ctx, claimID, err)
	}
	s.o.Uses.FileUsed(u.grant, u.FileUse, 0)
	return nil
}

// ReadFile opens a file, following links, and returns the part of its content. A nil
// part is all of it. The caller closes it.
func (s *Service) ReadFile(ctx context.Context, claimID, name string, part Part) (runtime.FileInfo, io.ReadCloser, error) {
	t, err := s.beginTransfer(ctx, claimID, FileUse{FileRead, name})
	if err != nil {
		return runtime.FileInfo{}, nil, err
	}
	info, content, err := t.open(part)
	if err != nil {
		defer t.end()
		return info, nil, t.error(err)
	}
	return info, t.download(content), nil
}

// ReadTree packs a directory or a file, as runtime.TenantFiles.ReadTree.
func (s *Service) ReadTree(ctx context.Context, claimID, name string) (io.ReadCloser, error) {
	t, err := s.beginTransfer(ctx, claimID, FileUse{FileRead, name})
	if err != nil {
		return nil, err
	}
	archive, err := s.o.Runtime.ReadTree(t.ctx, t.grant.Container(), t.ref)
	if err != nil {
		defer t.end()
		return nil, t.error(err)
	}
	return t.download(archive), nil
}

// WriteFile replaces or creates a file, as runtime.TenantFiles.WriteFile, and reports
// whether there was none. An error of content leaves the old one.
func (s *Service) WriteFile(ctx context.Context, claimID, name string, mode fs.FileMode, content io.Reader) (info runtime.FileInfo, created bool, err error) {
	t, err := s.beginTransfer(ctx, claimID, FileUse{FileWrite, name})
	if err != nil {
		return runtime.FileInfo{}, false, err
	}
	defer t.end()
	// It is for the answer only: what the write does cannot depend on it.
	_, err = s.o.Runtime.StatFile(t.ctx, t.grant.Container(), t.ref)
	created = errors.Is(err, runtime.ErrFileNotFound)
	up := &upload{transfer: t, content: content}
	info, err = s.o.Runtime.WriteFile(t.ctx, t.grant.Container(), t.ref, mode, up)
	if err != nil {
		return info, false, t.error(err)
	}
	s.o.Uses.FileUsed(t.grant, t.FileUse, up.bytes.Load())
	return info, created, nil
}

// WriteTree unpacks a tar stream into a directory, as runtime.TenantFiles.WriteTree,
// and describes the directory.
func (s *Service) WriteTree(ctx context.Context, claimID, name string, archive io.Reader) (runtime.FileInfo, error) {
	t, err := s.beginTransfer(ctx, claimID, FileUse{FileWrite, name})
	if err != nil {
		return runtime.FileInfo{}, err
	}
	defer t.end()
	up := &upload{transfer: t, content: archive}
	if err := s.o.Runtime.WriteTree(t.ctx, t.grant.Container(), t.ref, up); err != nil {
		return runtime.FileInfo{}, t.error(err)
	}
	s.o.Uses.FileUsed(t.grant, t.FileUse, up.bytes.Load())
	info, err := s.o.Runtime.StatFile(t.ctx, t.grant.Container(), t.ref)
	return info, t.error(err)
}

// fileUse is a permitted use of a file.
type fileUse struct {
	FileUse
	grant Grant
	ref   runtime.FileRef
	end   func() // of the use
}

// useFile begins a use of a file.
func (s *Service) useFile(ctx context.Context, claimID string, use FileUse, slots *slots) (fileUse, error) {
	g, err := s.Enter(ctx, claimID)
	if err != nil {
		return fileUse{}, err
	}
	if use.Path, err = cleanPath(use.Path); err != nil {
		return fileUse{}, err
	}
	// The gate is within the bounds: its hooks cost more than the file.
	end, err := slots.take(g)
	if err != nil {
		return fileUse{}, err
	}
	within, err := s.o.Gates.File(ctx, g, use)
	if err != nil {
		end()
		return fileUse{}, err
	}
	ref := runtime.FileRef{Path: use.Path, Within: within, Fence: g.Fence()}
	return fileUse{FileUse: use, grant: g, ref: ref, end: end}, nil
}

// cleanPath returns a path without what has no meaning in it. A part .. is refused:
// where it leads to depends on the links before it, so that a gate and the container
// could disagree.
func cleanPath(name string) (string, error) {
	invalid := func(detail string) (string, error) {
		return "", &runtime.FileError{Reason: runtime.FileInvalid, Path: "path", Detail: detail}
	}
	switch {
	case !strings.HasPrefix(name, "/"):
		return invalid("it is not absolute")
	case len(name) > MaxFilePath:
		return invalid(fmt.Sprintf("it has more than %d bytes", MaxFilePath))
	case strings.Contains(name, "\x00"):
		return invalid("it has a NUL byte")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return invalid(`it has a part ".."; write the path that it leads to`)
	}
	return path.Clean(name), nil
}

// fileError returns the error of a use of a file.
func (s *Service) fileError(ctx context.Context, claimID string, err error) error {
	if err == nil {
		return nil
	}
	file, isFile := errors.AsType[*runtime.FileError](err)
	switch {
	case isFile && file.Reason != runtime.FileOtherReason:
		return file // what the runtime adds is not for tenants
	case !isFile && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, runtime.ErrTooManyCommands):
		return fmt.Errorf("%w: %w", ErrTooManyTransfers, err)
	}
	// A release ends what is in use in the container, in many ways.
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	c, claimErr := s.o.Claims.Claim(look, claimID)
	switch {
	case claimErr == nil && c.State != claim.Active:
		return fmt.Errorf("%w: %w", claim.ErrNotActive, err)
	case isFile:
		return file
	}
	return asUsed(err)
}
