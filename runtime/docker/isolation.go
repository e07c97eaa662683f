package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"

	"github.com/hostler/hostler/runtime"
)

// maxProfileSize bounds a seccomp profile, in bytes.
const maxProfileSize = 1 << 20

// Check is runtime.Lifecycle.Check. A zero Isolation costs no request.
func (r *Runtime) Check(ctx context.Context, spec runtime.Spec) error {
	if spec.Isolation.FirstField() == "" {
		return nil
	}
	if _, err := r.seccompProfile(spec.Isolation); err != nil {
		return err
	}
	info, err := r.api.Info(ctx)
	if err != nil {
		return fmt.Errorf("query the engine's capabilities: %w", r.apiError(ctx, err))
	}
	return checkIsolation(info, spec.Isolation)
}

// checkIsolation reports what of a workload's Isolation an engine does not
// support.
func checkIsolation(info system.Info, want runtime.Isolation) error {
	if _, ok := info.Runtimes[want.Runtime]; want.Runtime != "" && !ok {
		return &runtime.SpecError{
			Field: "runtime", Reason: fmt.Sprintf("is %q, which the engine does not have", want.Runtime),
			Hint: "write one of " + strings.Join(slices.Sorted(maps.Keys(info.Runtimes)), ", ") +
				", or add it to the engine's settings (runtimes in daemon.json)",
		}
	}
	if name := want.Profile("apparmor"); name != "" && !hasSecurityOption(info, "apparmor") {
		return &runtime.SpecError{
			Field: "security_opt", Reason: fmt.Sprintf("names the AppArmor profile %q, and the engine's machine has no AppArmor", name),
			Hint: "leave it out, or use a machine whose kernel has AppArmor enabled",
		}
	}
	remapped := hasSecurityOption(info, "userns") || hasSecurityOption(info, "rootless")
	if want.UsernsMode == runtime.UsernsPrivate && !remapped {
		return &runtime.SpecError{
			Field: "userns_mode", Reason: "is private, and the engine gives containers no user namespace",
			Hint: "start the engine with userns-remap (daemon.json), or rootless, or leave it out",
		}
	}
	if want.UsernsMode == runtime.UsernsHost && remapped {
		return &runtime.SpecError{
			Field: "userns_mode", Reason: "is host, which would disable the user namespace that the engine provides",
			Hint: "leave it out",
		}
	}
	return nil
}

// hasSecurityOption reports whether an engine lists a security option, as
// "name=apparmor" or "name=seccomp,profile=default".
func hasSecurityOption(info system.Info, feature string) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(option string) bool {
		name, _, _ := strings.Cut(option, ",")
		return name == "name="+feature
	})
}

// seccompProfile returns the content of the profile that a workload names: a file
// of the operator's directory. It returns an empty string if the workload names
// none, or the engine's default.
func (r *Runtime) seccompProfile(want runtime.Isolation) (string, error) {
	name := want.Profile("seccomp")
	if name == "" || name == "default" {
		return "", nil
	}
	specError := func(reason, hint string) (string, error) {
		return "", &runtime.SpecError{
			Field: "security_opt", Reason: fmt.Sprintf("names the seccomp profile %q, %s", name, reason), Hint: hint}
	}
	if r.profiles == "" {
		return specError("and the server has no directory of profiles", "start it with --seccomp-profiles, or leave it out")
	}
	root, err := os.OpenRoot(r.profiles)
	if err != nil {
		return specError("and the server's directory of profiles cannot be read: "+err.Error(), "check --seccomp-profiles")
	}
	defer root.Close()
	content, err := root.ReadFile(name + ".json")
	var compact bytes.Buffer
	if err == nil && len(content) > maxProfileSize {
		err = errors.New("it is too large")
	}
	if err == nil {
		err = json.Compact(&compact, content)
	}
	if err != nil {
		return specError("which cannot be read: "+err.Error(), "put "+name+".json into the server's directory --seccomp-profiles")
	}
	return compact.String(), nil
}

// applyIsolation adds a workload's Isolation to the settings of its container. A
// profile that no longer exists is an error.
func (r *Runtime) applyIsolation(h *container.HostConfig, want runtime.Isolation) error {
	h.Runtime = want.Runtime
	if name := want.Profile("apparmor"); name != "" {
		h.SecurityOpt = append(h.SecurityOpt, "apparmor="+name)
	}
	profile, err := r.seccompProfile(want)
	if err != nil {
		return err
	}
	if profile != "" {
		h.SecurityOpt = append(h.SecurityOpt, "seccomp="+profile)
	}
	return nil
}
