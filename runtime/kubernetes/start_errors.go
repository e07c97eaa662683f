package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/hostler/hostler/runtime"
)

// schedulingTimeout bounds how long a pod may remain without a node. Resources
// that another pod releases are free within seconds; an autoscaler that adds
// nodes sees a pod that waits this long, and the next pod finds the node.
const schedulingTimeout = 20 * time.Second

// startErrByReason maps the kubelet's reasons for waiting. The kubelet retries all
// of them indefinitely; for us the first time is enough, because the pool
// retries with a pod of its own. Reasons that are not here (ContainerCreating,
// PodInitializing) only take time.
var startErrByReason = map[string]error{
	"ErrImagePull":               runtime.ErrImageUnavailable,
	"ImagePullBackOff":           runtime.ErrImageUnavailable,
	"InvalidImageName":           runtime.ErrImageUnavailable,
	"ErrImageNeverPull":          runtime.ErrImageUnavailable,
	"ImageInspectError":          runtime.ErrImageUnavailable,
	"RegistryUnavailable":        runtime.ErrImageUnavailable,
	"SignatureValidationFailed":  runtime.ErrImageUnavailable,
	"CreateContainerConfigError": runtime.ErrInvalid,
	"CreateContainerError":       runtime.ErrInvalid,
	"PreCreateHookError":         runtime.ErrInvalid,
	"PreStartHookError":          runtime.ErrInvalid,
	"PostStartHookError":         runtime.ErrInvalid,
	"RunContainerError":          runtime.ErrInvalid,
}

// startError returns why a pod that should start will not, in the cluster's
// words; nil while it may.
func startError(pod *corev1.Pod) error {
	if isTerminal(pod) {
		return fmt.Errorf("%w: %s", runtime.ErrNotRunning, terminationReason(pod))
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if err := containerStartError(c); err != nil {
			return fmt.Errorf("install the shim: %w", err)
		}
		if t := lastTermination(c); t != nil && t.ExitCode != 0 {
			return fmt.Errorf("%w: the shim could not be installed from %s: %s (%s, exit code %d)",
				runtime.ErrInvalid, c.Image, t.Message, t.Reason, t.ExitCode)
		}
	}
	if c := containerStatus(pod); c != nil {
		return containerStartError(*c)
	}
	return nil
}

// badProgramMessages are the error texts of container runtimes for a program that
// can never run. Every other start error is a problem of the node, and nothing
// is known of the container except that it does not run.
var badProgramMessages = []string{"executable file not found", "no such file or directory", "permission denied", "exec format error"}

func containerStartError(c corev1.ContainerStatus) error {
	if err := waitingError(c); err != nil {
		return err
	}
	t := lastTermination(c)
	if t == nil || c.State.Running != nil || !startFailed(t) {
		return nil
	}
	kind := runtime.ErrUnavailable
	if slices.ContainsFunc(badProgramMessages, func(words string) bool { return strings.Contains(t.Message, words) }) {
		kind = runtime.ErrInvalid
	}
	return fmt.Errorf("%w: %s: %s (%s)", kind, c.Image, t.Message, t.Reason)
}

func waitingError(c corev1.ContainerStatus) error {
	if w := c.State.Waiting; w != nil && startErrByReason[w.Reason] != nil {
		return fmt.Errorf("%w: %s: %s (%s)", startErrByReason[w.Reason], c.Image, w.Message, w.Reason)
	}
	return nil
}

// lastTermination returns how the container exited last, if it did.
func lastTermination(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if c.State.Terminated != nil {
		return c.State.Terminated
	}
	return c.LastTerminationState.Terminated
}

// unschedulable returns the scheduler's reason why no node accepts the pod, and
// since when; an empty reason if it has none.
func unschedulable(pod *corev1.Pod) (reason string, since time.Time) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Message, c.LastTransitionTime.Time
		}
	}
	return "", time.Time{}
}

// terminationReason returns why a pod has ended.
func terminationReason(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "its pod is being deleted"
	case pod.Status.Reason != "" || pod.Status.Message != "":
		return fmt.Sprintf("its pod has ended: %s %s", pod.Status.Reason, pod.Status.Message)
	}
	return fmt.Sprintf("its pod has ended (%s)", pod.Status.Phase)
}
