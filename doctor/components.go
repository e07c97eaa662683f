package doctor

import (
	"context"
	"fmt"
	"time"
)

func (v *examination) engine(ctx context.Context) error {
	begin := time.Now()
	there, err := v.Engine.List(ctx)
	v.report.Engine.Duration = float64(time.Since(begin).Microseconds()) / 1000
	if err != nil {
		v.engineUnavailable = true
		v.addFinding(Finding{
			Severity: Error, Message: fmt.Sprintf("the container engine does not answer: %v", err),
			Hint: "start it, or fix the connection to it; nothing is lost in the meantime, and the server reconnects by itself",
		})
		return nil
	}
	v.engineContainers = there
	v.report.Engine.Reachable, v.report.Engine.Containers = true, len(there)
	return nil
}

func (v *examination) database(ctx context.Context) (err error) {
	v.report.Database, err = v.Database(ctx)
	if err != nil {
		v.recordsUnavailable = true
		v.addFinding(Finding{
			Severity: Error, Message: fmt.Sprintf("the database does not answer, and its records were not checked: %v", err),
			Hint: "start it, or fix the connection to it; no claim can be made or released until it answers, and existing claims stay",
		})
	}
	return nil
}

// A disk with less free space than this will soon be full: the database's
// write-ahead log alone may grow to 64 MiB before a checkpoint.
const (
	lowSpace      = 1 << 30
	criticalSpace = 128 << 20
)

func (v *examination) disk(context.Context) (err error) {
	v.report.Disk, err = v.Disk()
	if err != nil || v.report.Disk.Free >= lowSpace {
		return err
	}
	f := Finding{
		Severity: Warning,
		Message:  fmt.Sprintf("the disk with %s has %d MiB left of %d", v.report.Disk.Path, v.report.Disk.Free>>20, v.report.Disk.Total>>20),
		Hint:     "free space on it: on a full disk, no claim can be recorded; a shorter --retention of `hostler serve` keeps fewer records",
	}
	if v.report.Disk.Free < criticalSpace {
		f.Severity = Error
	}
	v.addFinding(f)
	return nil
}
