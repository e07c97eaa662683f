package pool

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// validateForServer rejects a workload that this server cannot run, with
// validation errors of its file.
func (m *Manager) validateForServer(ctx context.Context, w *workload.Workload, file, dir string) error {
	var invalid []workload.ValidationError
	err := m.rt.Check(ctx, w.Spec(""))
	if specErr, ok := errors.AsType[*runtime.SpecError](err); ok {
		invalid = append(invalid, workload.ValidationError{Field: specErr.Field, Message: specErr.Reason, Hint: specErr.Hint})
	} else if err != nil {
		return fmt.Errorf("check workload %s: %w", w.ID, err)
	}
	if w.Sync != nil {
		if err := m.checkSink(ctx, w.Sync); err != nil {
			invalid = append(invalid, workload.ValidationError{
				Field: "sync.sink", Message: err.Error(),
				Hint: "use a sink that this server allows: see its flags --state-dirs and --credentials-dir",
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
				Message: fmt.Sprintf("is %q, which overlaps with the prefix of workload %s", w.Sync.Sink.Prefix, conflict),
				Hint:    "write the same prefix in both, or begin both with different directories",
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
				Hint: "put the file and the directory into the directory that the server follows (serve --workloads)",
			})
		}
	}
	if len(invalid) > 0 {
		return w.ValidationErrors(file, invalid...)
	}
	return nil
}

// withCopiedHooks returns w with the hooks of the workload that it copies them
// from, if it does.
func (m *Manager) withCopiedHooks(ctx context.Context, w *workload.Workload, file string) (*workload.Workload, error) {
	if w.HooksFrom == "" {
		return w, nil
	}
	invalid := func(message string) error {
		return w.ValidationErrors(file, workload.ValidationError{Field: "hooks_from", Message: message, Hint: "apply a valid one first"})
	}
	r, err := m.store.Workload(ctx, w.HooksFrom)
	switch {
	case errors.Is(err, ErrWorkloadNotFound):
		return nil, invalid("is " + w.HooksFrom + ", which is not a workload")
	case err != nil:
		return nil, fmt.Errorf("read workload %s: %w", w.HooksFrom, err)
	}
	other, err := workload.Parse(r.Source, w.HooksFrom)
	if err != nil {
		return nil, invalid("is " + w.HooksFrom + ", whose file this version does not accept")
	}
	return w.WithHooksOf(other, file)
}

// prefixConflict returns a workload, perhaps an earlier version of w, whose
// tenants' prefixes could be those of other tenants of w; empty if there is none.
func (m *Manager) prefixConflict(ctx context.Context, w *workload.Workload) (string, error) {
	all, err := m.store.Workloads(ctx)
	if err != nil {
		return "", fmt.Errorf("list the workloads: %w", err)
	}
	for _, r := range all {
		// A workload that an older version of Hostler accepted and this one does
		// not is not a reason to reject another.
		other, err := workload.Parse(r.Source, r.ID)
		if err == nil && other.Sync != nil && w.Sync.Sink.Overlaps(other.Sync.Sink) {
			return r.ID, nil
		}
	}
	return "", nil
}

// checkSeedDir returns an error if a seed directory cannot be used.
func checkSeedDir(dir, seed string) error {
	if dir == "" {
		return fmt.Errorf("the directory %q cannot be found: a file that is sent to the API has no directory", seed)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("the directory of the file cannot be read: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(seed)
	if err != nil {
		return fmt.Errorf("the directory %q cannot be read: %w", seed, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%q is not a directory", seed)
	}
	return nil
}
