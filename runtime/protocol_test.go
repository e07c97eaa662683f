package runtime

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only what a server wrote is a version, and only those between the oldest and
// the current one are supported.
func TestProtocolVersionCheck(t *testing.T) {
	p := Protocols{Oldest: 3, Current: 4}
	for record, want := range map[string]struct {
		version int
		err     error
	}{
		"4": {4, nil}, "3": {3, nil}, p.Format(): {4, nil},
		"5": {5, ErrNewer}, "2147483647": {2147483647, ErrNewer},
		"2": {2, ErrTooOld}, "1": {1, ErrTooOld},
		"": {0, ErrTainted}, "0": {0, ErrTainted}, "-1": {0, ErrTainted}, "04": {0, ErrTainted}, "+4": {0, ErrTainted},
		" 4": {0, ErrTainted}, "4.0": {0, ErrTainted}, "99999999999999999999": {0, ErrTainted}, "four": {0, ErrTainted},
	} {
		version, err := p.Parse(record)
		require.Equal(t, want.version, version, "%q", record)
		if want.err == nil {
			require.NoError(t, err, "%q", record)
			continue
		}
		require.ErrorIs(t, err, want.err, "%q", record)
		require.ErrorContains(t, err, "protocol version", "%q", record)
		if errors.Is(want.err, ErrTainted) {
			require.NotErrorIs(t, err, ErrUnavailable, "%q is final", record)
		} else {
			require.ErrorIs(t, err, ErrUnavailable, "%q may be retried by another server", record)
		}
	}
}
