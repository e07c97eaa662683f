package kubernetes

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/backend"
)

// A pod outlives its container: the kubelet starts an exited one again, with the
// same volumes, and the shim then waits for the request to start the main
// process. Start and Restart record on the pod how often it had exited when they
// restarted it, and a container counts as exited when that is another number: a
// greater one, or a smaller one on a node that has lost its records.

// unknownExitCode is the exit code of a container that disappeared without an
// observed exit.
const unknownExitCode = -1

// sigkillExitCode is the exit code of a process that SIGKILL ended. Running out of
// memory ends one that way; a container in which another process ran out of
// memory ends with a code of its own.
const sigkillExitCode = 137

// exitStatus describes how a container exited.
type exitStatus struct {
	startFailed bool // process 1 could not be started
	code        int
	oom         bool
	finishedAt  time.Time
}

// containerHistory is what a pod's status contains about the container's main
// process.
type containerHistory struct {
	exits     int        // how often it has exited
	restarted int        // how often it had exited when it was last restarted
	last      exitStatus // meaningful if it has exited
	running   bool
}

func historyOf(pod *corev1.Pod) containerHistory {
	l := containerHistory{last: exitStatus{code: unknownExitCode}}
	l.restarted, _ = strconv.Atoi(pod.Annotations[annotationRestarted]) // a missing one is 0
	c := containerStatus(pod)
	if c == nil {
		return l
	}
	l.exits = int(c.RestartCount)
	ended := c.LastTerminationState.Terminated
	switch {
	case c.State.Terminated != nil:
		l.exits, ended = l.exits+1, c.State.Terminated
	case c.State.Waiting != nil && ended != nil: // for its delay
		l.exits++
	}
	if ended != nil {
		code := int(ended.ExitCode)
		l.last = exitStatus{startFailed: startFailed(ended), code: code, finishedAt: ended.FinishedAt.Time, oom: ended.Reason == "OOMKilled" && code == sigkillExitCode}
	}
	l.running = c.State.Running != nil
	return l
}

// hasExited reports whether the main process has exited since it was last
// started.
func (l containerHistory) hasExited() bool { return l.exits != l.restarted }

// startFailed reports whether the node could not start process 1.
func startFailed(t *corev1.ContainerStateTerminated) bool {
	return t.Reason == "StartError" || t.Reason == "ContainerCannotRun"
}

// containerStatus returns the status of the workload's container; nil before the
// kubelet has processed the pod.
func containerStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == mainContainer {
			return c
		}
	}
	return nil
}

// isTerminal reports whether the pod can never run again: it was evicted, its
// node rejected or lost it, or it is being deleted.
func isTerminal(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || hasEnded(pod)
}

// hasEnded reports whether nothing of the pod runs, whatever the last report of its
// container is.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// stateOf returns the state as the contract names it. A pod that is being deleted
// runs until its container has ended.
func stateOf(pod *corev1.Pod) runtime.State {
	l := historyOf(pod)
	switch {
	case hasEnded(pod) || l.hasExited():
		return runtime.Exited
	case l.running:
		return runtime.Running
	case isTerminal(pod):
		return runtime.Exited
	}
	return runtime.Created
}

// conditionOf returns the condition as the contract names it.
func conditionOf(pod *corev1.Pod) runtime.Condition {
	switch {
	case pod.DeletionTimestamp != nil:
		return runtime.Terminating
	case stateOf(pod) == runtime.Running && isNodeLost(pod):
		return runtime.Unreachable
	}
	return ""
}

// statusOf returns the contract's status of a container.
func statusOf(pod *corev1.Pod) runtime.Status {
	version, _ := shim.Protocols().Parse(pod.Annotations[annotationProtocol]) // 0 if it is not a version
	s := runtime.Status{
		Protocol:  version,
		ID:        pod.Labels[labelContainer],
		Workload:  pod.Labels[labelWorkload],
		Revision:  pod.Labels[labelRevision],
		State:     stateOf(pod),
		Condition: conditionOf(pod),
		Node:      pod.Spec.NodeName,
		Endpoint:  runtime.Endpoint{Host: pod.Status.PodIP, Ports: backend.ParsePorts(pod.Annotations[annotationPorts])},
	}
	if s.State == runtime.Exited {
		last := historyOf(pod).last
		s.ExitCode, s.OOMKilled = last.code, last.oom
	}
	return s
}
