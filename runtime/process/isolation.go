package process

import (
	"context"

	"github.com/hostler/hostler/runtime"
)

// Check is runtime.Lifecycle.Check: nothing here isolates anything.
func (r *Runtime) Check(_ context.Context, spec runtime.Spec) error {
	field := spec.Isolation.FirstField()
	if field == "" {
		return nil
	}
	return &runtime.SpecError{
		Field: field, Reason: "is not supported: the process runtime isolates nothing",
		Hint: "use Docker or Kubernetes (serve --runtime), or leave it out",
	}
}
