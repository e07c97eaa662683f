package doctor

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/pool"
)

// Each invalid file is a finding with its first fault, and so is a directory
// without files.
func TestWorkloadFiles(t *testing.T) {
	found := pool.FollowedFiles{
		Dir: "/etc/hostler", Warning: "it has no workload file", Count: 3, Omitted: 2,
		Invalid: []pool.InvalidFile{pool.NewInvalidFile("a.yaml", "web", errors.New("is wrong"))},
	}
	v := &examination{report: &Report{}, Doctor: &Doctor{WorkloadFiles: func(context.Context) (pool.FollowedFiles, error) { return found, nil }}}
	require.NoError(t, v.workloadFiles(t.Context()))
	var got []string
	for _, f := range v.report.Findings {
		require.Equal(t, Warning, f.Severity)
		require.NotEmpty(t, f.Hint)
		got = append(got, f.Workload+" "+f.Message)
	}
	require.Equal(t, []string{
		" the directory of workload files /etc/hostler: it has no workload file",
		" the directory of workload files /etc/hostler has more than 1000 of them: 2 are not followed",
		"web a workload file is not applied: a.yaml: is wrong",
		" 2 more workload files are not applied",
	}, got)
}
