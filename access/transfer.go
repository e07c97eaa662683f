package access

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/runtime"
)

// transfer is a use of a file whose content is on the way. Its context ends when the
// container makes no progress, and after maxTransferTime.
type transfer struct {
	fileUse
	ctx     context.Context //nolint:containedctx // of the content, which is read after the call
	service *Service
	stall   *time.Timer // ends ctx
}

// beginTransfer begins a use whose duration depends on the client. It lasts until
// end is called.
func (s *Service) beginTransfer(ctx context.Context, claimID string, use FileUse) (*transfer, error) {
	u, err := s.useFile(ctx, claimID, use, s.transfers)
	if err != nil {
		return nil, err
	}
	release := s.Hold(ctx, u.grant)
	ctx, cancelTime := context.WithTimeoutCause(ctx, maxTransferTime, errTransferTime)
	ctx, cancel := context.WithCancelCause(ctx)
	t := &transfer{fileUse: u, ctx: ctx, service: s}
	t.stall = time.AfterFunc(transferIdleLimit, func() { cancel(errTransferStall) })
	end := u.end
	t.end = func() {
		t.stall.Stop()
		cancel(context.Canceled)
		cancelTime()
		release()
		end()
	}
	return t, nil
}

// error returns the error of the transfer.
func (t *transfer) error(err error) error {
	return t.service.fileError(t.ctx, t.grant.Claim.ID, err)
}

// open opens the part of a file. A file that becomes another one between the choice
// and the opening is opened again.
func (t *transfer) open(part Part) (runtime.FileInfo, io.ReadCloser, error) {
	if part == nil {
		return t.service.o.Runtime.ReadFile(t.ctx, t.grant.Container(), t.ref, 0, -1)
	}
	err := error(&runtime.FileError{Reason: runtime.FileChanged, Path: t.Path, Detail: "it changes all the time"})
	for range maxPartAttempts {
		chosen, content, failed := t.service.o.Runtime.ReadFile(t.ctx, t.grant.Container(), t.ref, 0, 0)
		if failed != nil {
			return chosen, nil, failed
		}
		_ = content.Close() // nothing was read
		offset, length, failed := part(chosen)
		if failed != nil {
			return chosen, nil, failed
		}
		if length == 0 {
			return chosen, io.NopCloser(eof{}), nil
		}
		info, content, failed := t.service.o.Runtime.ReadFile(t.ctx, t.grant.Container(), t.ref, offset, length)
		if failed != nil {
			err = failed // perhaps because it has become shorter
			continue
		}
		if info.Size == chosen.Size && info.Modified.Equal(chosen.Modified) {
			return info, content, nil
		}
		_ = content.Close() // nothing was read
	}
	return runtime.FileInfo{}, nil, err
}

// eof is an empty content.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

func (t *transfer) download(content io.ReadCloser) *download {
	t.stall.Stop()
	return &download{transfer: t, content: content}
}

// download is the content of a file on its way to the client.
type download struct {
	*transfer
	content io.ReadCloser
	isRead  bool
	bytes   int64
}

// Read bounds how long the container takes. How long the client takes is for the
// caller to bound.
func (d *download) Read(p []byte) (int, error) {
	d.isRead = true
	d.stall.Reset(transferIdleLimit)
	n, err := d.content.Read(p)
	d.stall.Stop()
	d.bytes += int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // a reader returns io.EOF itself
		err = d.error(err)
	}
	return n, err
}

// Close ends the transfer.
func (d *download) Close() error {
	err := d.content.Close()
	if d.isRead {
		d.service.o.Uses.FileUsed(d.grant, d.FileUse, d.bytes)
	}
	d.end()
	return err
}

// upload is the content of a file on its way to the container.
type upload struct {
	*transfer
	content io.Reader
	bytes   atomic.Int64
}

// Read bounds how long the container takes to read again. How long the client takes
// is for content to bound.
func (u *upload) Read(p []byte) (int, error) {
	u.stall.Stop()
	n, err := u.content.Read(p)
	u.bytes.Add(int64(n))
	limit := transferIdleLimit
	if err != nil {
		limit = transferEndLimit
	}
	u.stall.Reset(limit)
	return n, err
}
