package shim

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// What the caller's reader failed with counts most, a broken stream least, and
// a broken stream is never a success.
func TestSendOutcome(t *testing.T) {
	theirs, ours, broke := &sourceError{errors.New("theirs")}, errors.New("ours"), errors.New("broke")
	require.NoError(t, sendOutcome(nil, nil, nil))
	require.ErrorIs(t, sendOutcome(ours, theirs, broke), theirs)
	require.ErrorIs(t, sendOutcome(ours, broke, broke), ours)
	require.ErrorIs(t, sendOutcome(nil, broke, nil), runtime.ErrUnavailable)
	require.ErrorIs(t, sendOutcome(nil, nil, broke), runtime.ErrUnavailable)
}
