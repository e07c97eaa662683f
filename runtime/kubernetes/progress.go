package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/hostler/hostler/runtime"
)

// schedulingPatience is for how long a pod may find no node. What another one
// leaves is free a moment later; an autoscaler that makes room sees a pod that
// waits this long, and the next one finds the node.
const schedulingPatience = 20 * time.Second

// faultsOfStart is what the kubelet's reasons for waiting mean. All of them it
// repeats for ever; to us the first time is enough, for the pool tries again
// with a pod of its own. What is not here (ContainerCreating, PodInitializing)
// takes its time.
var faultsOfStart = map[string]error{
	"ErrImagePull":               runtime.ErrImage,
	"ImagePullBackOff":           runtime.ErrImage,
	"InvalidImageName":           runtime.ErrImage,
	"ErrImageNeverPull":          runtime.ErrImage,
	"ImageInspectError":          runtime.ErrImage,
	"RegistryUnavailable":        runtime.ErrImage,
	"SignatureValidationFailed":  runtime.ErrImage,
	"CreateContainerConfigError": runtime.ErrInvalid,
	"CreateContainerError":       runtime.ErrInvalid,
	"PreCreateHookError":         runtime.ErrInvalid,
	"PreStartHookError":          runtime.ErrInvalid,
	"PostStartHookError":         runtime.ErrInvalid,
	"RunContainerError":          runtime.ErrInvalid,
}

// startFault is why a pod that should start will not, in the cluster's words;
// nil while it may.
func startFault(pod *corev1.Pod) error {
	if over(pod) {
		return fmt.Errorf("%w: %s", runtime.ErrNotRunning, lastWords(pod))
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if err := containerFault(c); err != nil {
			return fmt.Errorf("install the shim: %w", err)
		}
		if t := ending(c); t != nil && t.ExitCode != 0 {
			return fmt.Errorf("%w: the shim could not be installed from %s: %s (%s, exit code %d)",
				runtime.ErrInvalid, c.Image, t.Message, t.Reason, t.ExitCode)
		}
	}
	if c := containerStatus(pod); c != nil {
		return containerFault(*c)
	}
	return nil
}

// noProgram are the words of container runtimes for a program that will never
// run. Whatever else keeps one from being started is the node's trouble, and
// nothing is known of the container but that it does not run.
var noProgram = []string{"executable file not found", "no such file or directory", "permission denied", "exec format error"}

func containerFault(c corev1.ContainerStatus) error {
	if err := waitingFault(c); err != nil {
		return err
	}
	t := ending(c)
	if t == nil || c.State.Running != nil || !neverRan(t) {
		return nil
	}
	means := runtime.ErrUnavailable
	if slices.ContainsFunc(noProgram, func(words string) bool { return strings.Contains(t.Message, words) }) {
		means = runtime.ErrInvalid
	}
	return fmt.Errorf("%w: %s: %s (%s)", means, c.Image, t.Message, t.Reason)
}

func waitingFault(c corev1.ContainerStatus) error {
	if w := c.State.Waiting; w != nil && faultsOfStart[w.Reason] != nil {
		return fmt.Errorf("%w: %s: %s (%s)", faultsOfStart[w.Reason], c.Image, w.Message, w.Reason)
	}
	return nil
}

// ending is how the container ended last, if it did.
func ending(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if c.State.Terminated != nil {
		return c.State.Terminated
	}
	return c.LastTerminationState.Terminated
}

// unschedulable is the scheduler's reason why no node takes the pod, and since
// when; empty while it has none.
func unschedulable(pod *corev1.Pod) (why string, since time.Time) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Message, c.LastTransitionTime.Time
		}
	}
	return "", time.Time{}
}

// lastWords is why a pod is over.
func lastWords(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "its pod is being deleted"
	case pod.Status.Reason != "" || pod.Status.Message != "":
		return fmt.Sprintf("its pod is over: %s %s", pod.Status.Reason, pod.Status.Message)
	}
	return fmt.Sprintf("its pod is over (%s)", pod.Status.Phase)
}
