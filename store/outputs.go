package store

import (
	"database/sql"
	"errors"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// What hooks print is kept with their runs. A tenant who claims and releases
// all the time, and has what its hooks run print as much as is kept, must not
// fill the database: of the attempts of a tenant on a workload that printed
// more than largeOutputSize, the newest maxKeptOutputs keep it all. Of those before
// them an excerpt of each stream stays.
const (
	largeOutputSize = 4 << 10
	maxKeptOutputs  = 100
)

const (
	selectSurplus = selectRuns + ` WHERE workload = $1 AND tenant = $2 AND large = 1
		ORDER BY id DESC, attempt DESC LIMIT 1 OFFSET $3`
	truncateRun = `UPDATE runs SET stdout = $3, stderr = $4, large = 0 WHERE id = $1 AND attempt = $2`
)

// isLarge reports whether a run's texts are much output.
func isLarge(texts [3]string) bool { return len(texts[1])+len(texts[2]) > largeOutputSize }

// truncateOutputs shortens what is beyond maxKeptOutputs, after one more has come:
// two at a time, so that what was beyond it before becomes less.
func truncateOutputs(t *tx, workload, tenant string) error {
	for range 2 {
		r, err := scanRun(t.query(selectSurplus, workload, tenant, maxKeptOutputs))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translateError(err)
		}
		r.Stdout, r.Stderr = truncated(r.Stdout), truncated(r.Stderr)
		texts, err := runTextColumns(r)
		if err != nil {
			return err
		}
		if _, err := t.exec(truncateRun, r.ID, r.Attempt, texts[1], texts[2]); err != nil {
			return err
		}
	}
	return nil
}

// truncated is an output of which an excerpt is left.
func truncated(o runtime.Output) runtime.Output {
	text, cut := o.Excerpt(hooks.ExcerptBytes)
	if !cut {
		return o
	}
	return runtime.Output{Tail: text, Total: o.Total, Truncated: true}
}
