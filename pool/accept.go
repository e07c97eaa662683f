package pool

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// acceptable refuses what this server cannot do, in the form of faults of the
// file.
func (m *Manager) acceptable(ctx context.Context, w *workload.Workload, file, dir string) error {
	var found []workload.Fault
	err := m.rt.Check(ctx, w.Spec(""))
	if cannot, ok := errors.AsType[*runtime.SpecError](err); ok {
		found = append(found, workload.Fault{Field: cannot.Field, Message: cannot.Reason, Remedy: cannot.Remedy})
	} else if err != nil {
		return fmt.Errorf("ask whether workload %s can run here: %w", w.ID, err)
	}
	if w.Sync != nil && m.OpenSink != nil {
		if err := m.OpenSink(ctx, w.Sync); err != nil {
			found = append(found, workload.Fault{
				Field: "sync.sink", Message: err.Error(),
				Remedy: "name what this server allows: its flags --state-folders and --credentials-dir say what",
			})
		}
	}
	if w.Sync != nil {
		meets, err := m.meets(ctx, w)
		if err != nil {
			return err
		}
		if meets != "" {
			found = append(found, workload.Fault{
				Field:   "sync.sink.prefix",
				Message: fmt.Sprintf("is %q, below which workload %s may keep other tenants, or above", w.Sync.Sink.Prefix, meets),
				Remedy:  "write the same prefix as there, or begin both with folders of different names",
			})
		}
	}
	for _, v := range w.Volumes {
		if v.Seed == "" {
			continue
		}
		if err := seedThere(dir, v.Seed); err != nil {
			found = append(found, workload.Fault{
				Field: "volumes." + v.Name + ".seed", Message: err.Error(),
				Remedy: "put the folder beside the workload file, in the folder that the server loads (serve --workloads)",
			})
		}
	}
	if len(found) > 0 {
		return w.Faults(file, found...)
	}
	return nil
}

// meets is a workload, perhaps w as it was before, that keeps its tenants where
// they could be taken for w's.
func (m *Manager) meets(ctx context.Context, w *workload.Workload) (string, error) {
	all, err := m.store.Workloads(ctx)
	if err != nil {
		return "", fmt.Errorf("list the workloads: %w", err)
	}
	for _, r := range all {
		// What an older version of Hostler took and this one does not is no
		// reason to refuse another workload.
		other, err := workload.Parse(r.Source, r.ID)
		if err == nil && other.Sync != nil && w.Sync.Sink.Meets(other.Sync.Sink) {
			return r.ID, nil
		}
	}
	return "", nil
}

// seedThere says why a seed folder cannot be used.
func seedThere(dir, seed string) error {
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
