package process

import (
	"context"

	"github.com/hostler/hostler/runtime"
)

// Check is runtime.Lifecycle.Check: nothing here isolates anything, and users are
// those of the machine.
func (r *Runtime) Check(_ context.Context, spec runtime.Spec) error {
	field := spec.Isolation.FirstField()
	if field == "" {
		return r.checkUser(spec.User)
	}
	return &runtime.SpecError{
		Field: field, Reason: "is not supported: the process runtime isolates nothing",
		Hint: "use Docker or Kubernetes (serve --runtime), or leave it out",
	}
}
