package pool

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// validateForServer refuses what this server cannot do, in the form of faults of the
// file.
func (m *Manager) validateForServer(ctx context.Context, w *workload.Workload, file, dir string) error {
	var invalid []workload.ValidationError
	err := m.rt.Check(ctx, w.Spec(""))
	if specErr, ok := errors.AsType[*runtime.SpecError](err); ok {
		invalid = append(invalid, workload.ValidationError{Field: specErr.Field, Message: specErr.Reason, Hint: specErr.Hint})
	} else if err != nil {
		return fmt.Errorf("ask whether workload %s can run here: %w", w.ID, err)
	}
	if w.Sync != nil && m.OpenSink != nil {
		if err := m.OpenSink(ctx, w.Sync); err != nil {
			invalid = append(invalid, workload.ValidationError{
				Field: "sync.sink", Message: err.Error(),
				Hint: "name what this server allows: its flags --state-folders and --credentials-dir say what",
			})
		}
	}
	if w.Sync != nil {
		conflict, err := m.prefixConflict(ctx, w)
		if err != nil {
			return err
		}
		if conflict != "" {
			invalid = append(invalid, workload.ValidationError{
				Field:   "sync.sink.prefix",
				Message: fmt.Sprintf("is %q, below which workload %s may keep other tenants, or above", w.Sync.Sink.Prefix, conflict),
				Hint:    "write the same prefix as there, or begin both with folders of different names",
			})
		}
	}
	for _, v := range w.Volumes {
		if v.Seed == "" {
			continue
		}
		if err := checkSeedDir(dir, v.Seed); err != nil {
			invalid = append(invalid, workload.ValidationError{
				Field: "volumes." + v.Name + ".seed", Message: err.Error(),
				Hint: "put the folder beside the workload file, in the folder that the server loads (serve --workloads)",
			})
		}
	}
	if len(invalid) > 0 {
		return w.ValidationErrors(file, invalid...)
	}
	return nil
}

// prefixConflict is a workload, perhaps w as it was before, that keeps its tenants where
// they could be taken for w's.
func (m *Manager) prefixConflict(ctx context.Context, w *workload.Workload) (string, error) {
	all, err := m.store.Workloads(ctx)
	if err != nil {
		return "", fmt.Errorf("list the workloads: %w", err)
	}
	for _, r := range all {
		// What an older version of Hostler took and this one does not is no
		// reason to refuse another workload.
		other, err := workload.Parse(r.Source, r.ID)
		if err == nil && other.Sync != nil && w.Sync.Sink.Overlaps(other.Sync.Sink) {
			return r.ID, nil
		}
	}
	return "", nil
}

// checkSeedDir says why a seed folder cannot be used.
func checkSeedDir(dir, seed string) error {
	if dir == "" {
		return fmt.Errorf("the folder %q cannot be found: the server loads workloads from no folder", seed)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("the folder of the file cannot be read: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(seed)
	if err != nil {
		return fmt.Errorf("the folder %q cannot be read: %w", seed, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%q is no folder", seed)
	}
	return nil
}
