package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hostler/hostler/runtime"
)

// errNetworkMode rejects what only a network plugin could do.
var errNetworkMode = &runtime.SpecError{
	Field: "network_mode", Reason: "is none, and a pod always has a network: whether a NetworkPolicy is enforced is unknown",
	Hint: "leave it out, and select the pods with a NetworkPolicy by their label " + labelWorkload,
}

// Check is runtime.Lifecycle.Check: the API server validates a pod in a dry run.
// It needs no permission other than creating pods.
func (r *Runtime) Check(ctx context.Context, spec runtime.Spec) error {
	want := spec.Isolation
	field := want.FirstField()
	if field == "" {
		return nil
	}
	if want.NetworkMode != "" {
		return errNetworkMode
	}
	spec.ID = "check"
	requested, err := r.buildPod(spec, imageConfig{
		ref: spec.Image, args: append([]string{"check"}, spec.Command...), user: cmp.Or(spec.User, "65534")})
	if err != nil {
		return err
	}
	requested.Name, requested.GenerateName = "", podName("check-")
	got, err := r.pods.Create(ctx, requested, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err = r.createError(ctx, err); errors.Is(err, runtime.ErrInvalid) {
		if want.Runtime != "" && !strings.Contains(err.Error(), "RuntimeClass") {
			field = (runtime.Isolation{SecurityOpt: want.SecurityOpt, UsernsMode: want.UsernsMode}).FirstField()
		}
		return &runtime.SpecError{
			Field: cmp.Or(field, "runtime"), Reason: "is rejected by the cluster: " + err.Error(),
			Hint: "use what the cluster has (kubectl get runtimeclasses), or leave it out",
		}
	}
	if err != nil {
		return fmt.Errorf("query the cluster's capabilities: %w", err)
	}
	return checkApplied(requested, got)
}

// checkApplied reports which settings the API server has dropped: one that does
// not support a field, or has disabled it, drops it silently.
func checkApplied(requested, got *corev1.Pod) error {
	dropped := ""
	a, g := mainSecurityContext(requested), mainSecurityContext(got)
	switch {
	case !reflect.DeepEqual(requested.Spec.RuntimeClassName, got.Spec.RuntimeClassName):
		dropped = "runtime"
	case requested.Spec.HostUsers != nil && !reflect.DeepEqual(requested.Spec.HostUsers, got.Spec.HostUsers):
		dropped = "userns_mode"
	case !reflect.DeepEqual(a.SeccompProfile, g.SeccompProfile) || !reflect.DeepEqual(a.AppArmorProfile, g.AppArmorProfile):
		dropped = "security_opt"
	}
	if dropped == "" {
		return nil
	}
	return &runtime.SpecError{
		Field: dropped, Reason: "is not available: the cluster drops it from the pod",
		Hint: "use a cluster that supports it and has it enabled, or leave it out",
	}
}

// mainSecurityContext returns the security context of the workload's container.
func mainSecurityContext(pod *corev1.Pod) *corev1.SecurityContext {
	for _, c := range pod.Spec.Containers {
		if c.Name == mainContainer && c.SecurityContext != nil {
			return c.SecurityContext
		}
	}
	return &corev1.SecurityContext{}
}

// applyIsolation adds a workload's Isolation to its pod.
func applyIsolation(p *corev1.PodSpec, want runtime.Isolation) error {
	if want.NetworkMode != "" {
		return errNetworkMode
	}
	if want.Runtime != "" {
		p.RuntimeClassName = &want.Runtime
	}
	if want.UsernsMode != "" {
		hostUsers := want.UsernsMode == runtime.UsernsHost
		p.HostUsers = &hostUsers
	}
	sc := p.Containers[0].SecurityContext
	if name := want.Profile("seccomp"); name != "" && name != "default" {
		path := "profiles/" + name + ".json"
		sc.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &path}
	}
	if name := want.Profile("apparmor"); name != "" {
		sc.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}
