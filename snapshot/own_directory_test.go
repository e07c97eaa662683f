package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/workload"
)

// With OwnDirectory no sink of a workload is opened, nor are its credentials read.
func TestOwnDirectory(t *testing.T) {
	sinks := NewSinks(PathPolicy{State: t.TempDir()}, nil)
	sync := &workload.Sync{Sink: workload.Sink{Type: workload.SinkS3, Bucket: "tenants", Prefix: "a/${tenantId}/"}}
	_, err := sinks.Open(t.Context(), sync)
	require.Error(t, err)
	sinks.OwnDirectory = true
	_, err = sinks.Open(t.Context(), sync)
	require.NoError(t, err)
	require.Equal(t, workload.SinkS3, sync.Sink.Type, "the workload's own is not changed")
	require.NoError(t, sinks.Close())
}
