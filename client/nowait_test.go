package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// To wait not at all is said to the server: what is left out is its default.
func TestWaitOfClaimRequest(t *testing.T) {
	for wait, want := range map[time.Duration]string{0: "", NoWait: "0s", 7 * time.Second: "7s"} {
		require.Equal(t, want, newClaimRequest("w", "t", wait).Wait)
	}
}
