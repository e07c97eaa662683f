package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"cloud.google.com/go/storage"
	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"google.golang.org/api/googleapi"
)

var (
	// errOtherRange indicates an answer with other bytes than those that were
	// asked for, such as the whole object: what a service or a proxy does that
	// does not know ranges.
	errOtherRange = errors.New("the service answered with another range than that asked for")
	// errCut indicates an answer that ends early although the object has the
	// bytes, unlike io.ErrUnexpectedEOF.
	errCut = errors.New("the connection to the service ended early")
)

// answeredRange returns the offset of the first byte of an answer, and the size
// of the object, -1 if the answer does not have it. The clients for Amazon and
// Azure do not compare them with what was asked for.
func answeredRange(r *blob.Reader, offset int64) (first, total int64) {
	var google *storage.Reader
	var amazon s3.GetObjectOutput
	var azure azblob.DownloadStreamResponse
	switch {
	case r.As(&google):
		return google.Attrs.StartOffset, google.Attrs.Size
	case r.As(&amazon):
		return parseContentRange(amazon.ContentRange, amazon.ContentLength)
	case r.As(&azure):
		return parseContentRange(azure.ContentRange, azure.ContentLength)
	}
	return offset, r.Size()
}

// parseContentRange parses the header Content-Range, "bytes 10-14/27". Without
// it the answer is the whole object, of the given length.
func parseContentRange(header *string, length *int64) (first, total int64) {
	if header == nil || *header == "" {
		if length == nil {
			return 0, -1
		}
		return 0, *length
	}
	text, ok := strings.CutPrefix(*header, "bytes ")
	from, rest, ok2 := strings.Cut(text, "-")
	first, err := strconv.ParseInt(from, 10, 64)
	if !ok || !ok2 || err != nil {
		return -1, -1
	}
	_, size, _ := strings.Cut(rest, "/")
	total, err = strconv.ParseInt(size, 10, 64)
	if err != nil {
		total = -1 // "*": the service does not know it
	}
	return first, total
}

// rangeReader reads a part of an object.
type rangeReader struct {
	ctx context.Context //nolint:containedctx // of the one call that reads it
	reader
}

func (r *rangeReader) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if r.ctx.Err() != nil {
		return n, context.Cause(r.ctx) // also in place of io.EOF
	}
	return n, withoutShort(err)
}

// withoutShort returns the error of a connection that ended early as errCut.
// For callers io.ErrUnexpectedEOF means that the object is damaged.
func withoutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %s", errCut, err.Error())
	}
	return err
}

// translateRange is translateMissing for a range.
func (b *bucket) translateRange(ctx context.Context, key string, err error) error {
	if isAfterEnd(err) {
		return fmt.Errorf("%w: %s", io.ErrUnexpectedEOF, b.translateError(err).Error())
	}
	return withoutShort(b.translateMissing(ctx, key, err))
}

// isAfterEnd reports whether a range was refused because it begins after the
// object's end.
func isAfterEnd(err error) bool {
	if google, ok := errors.AsType[*googleapi.Error](err); ok {
		return google.Code == http.StatusRequestedRangeNotSatisfiable
	}
	amazon, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err)
	return ok && amazon.HTTPStatusCode() == http.StatusRequestedRangeNotSatisfiable || bloberror.HasCode(err, bloberror.InvalidRange)
}
