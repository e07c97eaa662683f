package kubernetes

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// A pod outlives its container: the kubelet starts an ended one again, with the
// volumes it had, and the shim then waits to be told to start the main process.
// So a container has ended when it has died more often than Start or Restart
// have brought it back, which is noted on the pod.

// unknownExitCode is the exit code of what disappeared without having ended before
// anybody's eyes.
const unknownExitCode = -1

// sigkillExitCode is the exit code of a process that SIGKILL ended. Running out of
// memory ends one that way; a container in which another process ran out of
// memory ends with a code of its own.
const sigkillExitCode = 137

// exitStatus is how a container ended.
type exitStatus struct {
	startFailed bool // process 1 could not be started
	code        int
	oom         bool
	finishedAt  time.Time
}

// containerHistory is what a pod's status says of the container's main process.
type containerHistory struct {
	exits     int        // how often it has ended
	restarted int        // how often it was brought back
	last      exitStatus // meaningful when it has ended
	running   bool
}

func historyOf(pod *corev1.Pod) containerHistory {
	l := containerHistory{last: exitStatus{code: unknownExitCode}}
	l.restarted, _ = strconv.Atoi(pod.Annotations[annotationRestarted]) // none is 0
	c := containerStatus(pod)
	if c == nil {
		return l
	}
	l.exits = int(c.RestartCount)
	ended := c.LastTerminationState.Terminated
	if c.State.Terminated != nil {
		l.exits, ended = l.exits+1, c.State.Terminated
	}
	if ended != nil {
		code := int(ended.ExitCode)
		l.last = exitStatus{startFailed: startFailed(ended), code: code, finishedAt: ended.FinishedAt.Time, oom: ended.Reason == "OOMKilled" && code == sigkillExitCode}
	}
	l.running = c.State.Running != nil
	return l
}

// startFailed says whether the node could not start process 1.
func startFailed(t *corev1.ContainerStateTerminated) bool {
	return t.Reason == "StartError" || t.Reason == "ContainerCannotRun"
}

// containerStatus is the status of the workload's container; nil before the
// kubelet has looked at the pod.
func containerStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == mainContainer {
			return c
		}
	}
	return nil
}

// isTerminal says whether the pod can never run again: evicted, its node refused or
// lost it, or it is being deleted.
func isTerminal(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil ||
		pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// stateOf is the state in the words of the contract.
func stateOf(pod *corev1.Pod) runtime.State {
	l := historyOf(pod)
	switch {
	case isTerminal(pod) || l.exits > l.restarted:
		return runtime.Exited
	case l.running:
		return runtime.Running
	}
	return runtime.Created
}

// statusOf is all that the contract tells of a container.
func statusOf(pod *corev1.Pod) runtime.Status {
	version, _ := shim.Protocols().Parse(pod.Annotations[annotationProtocol]) // 0 when it is none
	s := runtime.Status{
		Protocol: version,
		ID:       pod.Labels[labelContainer],
		Workload: pod.Labels[labelWorkload],
		Revision: pod.Labels[labelRevision],
		State:    stateOf(pod),
		Endpoint: runtime.Endpoint{Host: pod.Status.PodIP, Ports: parsePorts(pod.Annotations[annotationPorts])},
	}
	if s.State == runtime.Exited {
		last := historyOf(pod).last
		s.ExitCode, s.OOMKilled = last.code, last.oom
	}
	return s
}
