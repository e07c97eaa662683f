package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
)

func TestTransferMetrics(t *testing.T) {
	m := newMetrics()
	count := m.newTransferCounter()
	count("web", "upload", snapshot.Transfer{Files: 10, Bytes: 100, MovedFiles: 3, MovedBytes: 30, Sent: 20, Duration: time.Second}, nil)
	count("web", "upload", snapshot.Transfer{Files: 10, Bytes: 100, Unchanged: true}, nil)
	count("web", "download", snapshot.Transfer{Files: 9, Sent: 5}, errors.New("no"))
	text := scrape(t, m)
	for _, line := range []string{
		`hostler_state_transfers_total{direction="upload",outcome="completed",workload="web"} 1`,
		`hostler_state_transfers_total{direction="upload",outcome="unchanged",workload="web"} 1`,
		`hostler_state_transfers_total{direction="download",outcome="failed",workload="web"} 1`,
		`hostler_state_transferred_bytes_total{direction="upload",workload="web"} 20`,
		`hostler_state_transferred_bytes_total{direction="download",workload="web"} 5`,
		`hostler_state_files_total{direction="upload",handling="moved",workload="web"} 3`,
		`hostler_state_files_total{direction="upload",handling="skipped",workload="web"} 17`,
		`hostler_state_bytes_total{direction="upload",handling="moved",workload="web"} 30`,
		`hostler_state_bytes_total{direction="upload",handling="skipped",workload="web"} 170`,
	} {
		require.Contains(t, text, line+"\n")
	}
	require.NotContains(t, text, `hostler_state_files_total{direction="download"`, "of a failed transfer")
}
