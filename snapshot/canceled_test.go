package snapshot_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
)

// readScan does something before a file is read.
type readScan struct {
	tree.Scan
	before func()
}

func (s readScan) Read(indexes []int, each func(int, tree.Entry, tree.Content) error) error {
	s.before()
	return s.Scan.Read(indexes, each)
}

// An upload that ends right when a file begins, because it is canceled or its
// container is too slow, returns why. It does not panic.
func TestUploadEndsWhereAFileBegins(t *testing.T) {
	t.Parallel()
	superseded := errors.New("superseded")
	for want, before := range map[error]func(cancel context.CancelCauseFunc){
		superseded:            func(cancel context.CancelCauseFunc) { cancel(superseded) },
		snapshot.ErrContainer: func(context.CancelCauseFunc) { wait(5 * time.Minute) },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			files := scanFunc(func(context.Context, string) tree.Scan {
				return readScan{scanOf(entry("f", tree.File, 10)), func() { before(cancel) }}
			})
			_, err := sinkFor("**").Upload(ctx, files, origin("w", "alice"))
			require.ErrorIs(t, err, want)
		})
	}
}
