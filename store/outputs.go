package store

import (
	"database/sql"
	"errors"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// The output of hooks is stored with their runs, and that of containers that failed
// with their records (containeroutputs.go). A tenant that claims and
// releases continuously, with hooks that print as much as is stored, must not
// fill the database. Of a tenant's attempts on a workload that printed more
// than largeOutputSize, the newest maxKeptOutputs keep their whole output.
// Earlier ones keep an excerpt of each stream. The same holds for its containers.
const (
	largeOutputSize = 4 << 10
	maxKeptOutputs  = 100
)

var selectSurplus = selectRuns + ` WHERE workload = $1 AND tenant = $2 AND large = 1
	ORDER BY id DESC, attempt DESC LIMIT 1 OFFSET $3`

const truncateRun = `UPDATE runs SET stdout = $3, stderr = $4, large = 0 WHERE id = $1 AND attempt = $2`

// outputColumns returns the columns stdout and stderr, and whether they are
// larger than largeOutputSize.
func outputColumns(r hooks.Run) (stdout, stderr string, large bool, err error) {
	if stdout, err = encode(r.Stdout); err != nil {
		return "", "", false, err
	}
	stderr, err = encode(r.Stderr)
	return stdout, stderr, len(stdout)+len(stderr) > largeOutputSize, err
}

// truncateOutputs truncates the outputs beyond maxKeptOutputs, after one more
// was added. It truncates two at a time, so that an existing surplus shrinks.
func truncateOutputs(t *tx, workload, tenant string) error {
	for range 2 {
		r, err := runColumns.scan(t.query(selectSurplus, workload, tenant, maxKeptOutputs))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translateError(err)
		}
		r.Stdout, r.Stderr = truncated(r.Stdout), truncated(r.Stderr)
		stdout, stderr, _, err := outputColumns(r)
		if err != nil {
			return err
		}
		if _, err := t.exec(truncateRun, r.ID, r.Attempt, stdout, stderr); err != nil {
			return err
		}
	}
	return nil
}

// truncated returns an excerpt of an output.
func truncated(o runtime.Output) runtime.Output {
	text, shortened := o.Excerpt(hooks.ExcerptBytes)
	if !shortened {
		return o
	}
	return runtime.Output{Tail: text, Total: o.Total, Truncated: true}
}
