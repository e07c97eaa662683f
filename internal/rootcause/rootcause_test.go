package rootcause_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/rootcause"
)

var errUnhealthy = errors.New("container is unhealthy")

// The cause of an error comes first and alone, what was being done is a list, and
// nothing of the text is lost. A cause that explains nothing keeps its context.
func TestOf(t *testing.T) {
	start := errors.New(`"my-server" is not in PATH (binary_not_found)`)
	missing := &fs.PathError{Op: "open", Path: "/etc/app", Err: fs.ErrNotExist}
	wrapped := fmt.Errorf("start the container 7: %w", fmt.Errorf("start main: %w", fmt.Errorf("open a session: %w", start)))
	for name, test := range map[string]struct {
		err   error
		cause string
		chain []string
	}{
		"nothing":         {nil, "", nil},
		"no wrap":         {start, start.Error(), nil},
		"a step of ours":  {&flow.Error{Step: "start", Err: errors.Join(wrapped)}, start.Error(), []string{"start", "start the container 7", "start main", "open a session"}},
		"a short cause":   {fmt.Errorf("create: %w", fmt.Errorf("open a session: %w", io.EOF)), "open a session: EOF", []string{"create"}},
		"a detail":        {fmt.Errorf("healthy: %w", fmt.Errorf("%w: its check exited with code %d", errUnhealthy, 7)), "container is unhealthy: its check exited with code 7", []string{"healthy"}},
		"nothing printed": {fmt.Errorf("%w: its check exited with code 7: ", errUnhealthy), "container is unhealthy: its check exited with code 7", nil},
		"another module":  {fmt.Errorf("read it: %w", missing), "open /etc/app: file does not exist", []string{"read it"}},
		"two sentinels":   {fmt.Errorf("%w: reach it: %w", errUnhealthy, start), start.Error(), []string{"container is unhealthy: reach it"}},
		"undo failed too": {&flow.Error{Step: "start", Err: errors.Join(wrapped, errors.New("remove: gone"))}, start.Error(), []string{"start", "start the container 7", "start main", "open a session", "remove: gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			cause, chain := rootcause.Of(test.err)
			require.Equal(t, test.cause, cause)
			require.Equal(t, test.chain, chain)
		})
	}
}

// An error of any depth is separated in bounded time, and its text is complete.
func TestOfDeepError(t *testing.T) {
	err := errors.New("the disk of the server is full")
	for range 100 {
		err = fmt.Errorf("again: %w", err)
	}
	cause, chain := rootcause.Of(err)
	require.Equal(t, err.Error(), strings.Join(append(chain, cause), ": "))
	require.Len(t, chain, 32)
}
