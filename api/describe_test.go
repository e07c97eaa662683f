package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/runtime"
)

// A program learns what it has done wrong, and of other errors only what kind they
// are. What it can cause many times a second is not logged.
func TestDescribe(t *testing.T) {
	var log strings.Builder
	down := errors.New("the database at 10.0.0.1 is unavailable")
	a := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil)), StorageUnavailable: []error{down}})
	for _, tt := range []struct {
		err    error
		want   runtime.ProblemCode
		detail string
		lines  int
	}{
		{fmt.Errorf("read claim: %w", down), runtime.ProblemUnavailable, "The database is unavailable", 0},
		{fmt.Errorf("read claim: %w", claim.ErrNotActive), runtime.ProblemCode(ClaimNotActive), "read claim: " + claim.ErrNotActive.Error(), 0},
		{fmt.Errorf("10.0.0.1: %w", runtime.ErrUnavailable), runtime.ProblemUnavailable, "The container engine is unavailable", 0},
		{context.DeadlineExceeded, runtime.ProblemCode(Timeout), "The request timed out", 0},
		{errors.New("a bug at 10.0.0.1"), runtime.ProblemFailed, "Internal server error", 1},
	} {
		log.Reset()
		require.Equal(t, runtime.Problem{Code: tt.want, Detail: tt.detail}, a.Describe(t.Context(), tt.err))
		require.Equal(t, tt.lines, strings.Count(log.String(), "\n"), log.String())
	}
}
