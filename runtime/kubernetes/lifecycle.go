package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// The timeouts for the cluster to become available again and to remove a pod,
// and the poll intervals.
const (
	maxWait              = 30 * time.Second
	watchRestartInterval = 500 * time.Millisecond
	minAwaitBackoff      = 500 * time.Millisecond
	minOpenBackoff       = 20 * time.Millisecond

	maxBackoff = time.Second
)

// Create is runtime.Lifecycle.Create.
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) error {
	if err := r.create(ctx, spec); err != nil {
		return fmt.Errorf("create the container %s: %w", spec.ID, err)
	}
	return nil
}

func (r *Runtime) create(ctx context.Context, spec runtime.Spec) error {
	if err := checkID(spec.ID); err != nil {
		return err
	}
	if len(spec.Networks) > 0 {
		return fmt.Errorf("%w: networks exist only on a Docker engine; on Kubernetes, leave them out and select "+
			"the pods with a NetworkPolicy by their label %s", runtime.ErrInvalid, labelWorkload)
	}
	img, err := r.images.resolve(ctx, spec)
	if err != nil {
		return err
	}
	pod, err := r.buildPod(spec, img)
	if err != nil {
		return err
	}
	_, err = r.pods.Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return r.nameTakenError(ctx, spec.ID)
	}
	return r.createError(ctx, err)
}

// nameTakenError describes the owner of the pod that has the name of this id.
func (r *Runtime) nameTakenError(ctx context.Context, id string) error {
	_, err := r.lookup(ctx, id)
	switch {
	case err == nil:
		return runtime.ErrExists
	case errors.Is(err, errForeign):
		return fmt.Errorf("%w: the name %s is in use", runtime.ErrInvalid, podName(id))
	case errors.Is(err, runtime.ErrNotFound): // it was just removed
		return fmt.Errorf("%w: the name %s was in use", runtime.ErrUnavailable, podName(id))
	}
	return err
}

// Start is runtime.Lifecycle.Start.
func (r *Runtime) Start(ctx context.Context, id string, fence int64) error {
	err := r.start(ctx, id, fence)
	if err == nil {
		err = r.restarted(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("start the container %s: %w", id, err)
	}
	return nil
}

func (r *Runtime) start(ctx context.Context, id string, fence int64) error {
	pod, _, err := r.prepare(ctx, id)
	if err != nil {
		return err
	}
	startMain := func(ctx context.Context) error { return r.sessions.Get(id).StartMain(ctx, fence) }
	// This includes one that the node has started at its second attempt, where
	// the shim may wait.
	if stateOf(pod) == runtime.Exited {
		return r.resumeExited(ctx, pod, startMain)
	}
	err = withOpenRetry(ctx, startMain)
	if _, failed := errors.AsType[*runtime.StartError](err); err != nil && !failed && stateOf(pod) == runtime.Running {
		return r.explainStartError(ctx, id, err)
	}
	return err
}

// prepare returns the pod of a container that has run. It first runs one that
// has not, and reports that.
func (r *Runtime) prepare(ctx context.Context, id string) (pod *corev1.Pod, isNew bool, err error) {
	pod, err = r.lookup(ctx, id)
	if err == nil {
		_, err = shim.Protocols().Parse(pod.Annotations[annotationProtocol])
	}
	if err != nil {
		return nil, false, err
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		if pod, err = r.patch(ctx, pod, map[string]any{"spec": map[string]any{"schedulingGates": []any{}}}); err != nil {
			return nil, false, fmt.Errorf("remove the scheduling gate: %w", err)
		}
	}
	if stateOf(pod) != runtime.Created {
		return pod, false, nil
	}
	pod, err = r.awaitRunning(ctx, pod)
	return pod, true, err
}

// withOpenRetry calls f until the shim listens: the kubelet is done once process
// 1 exists.
func withOpenRetry(ctx context.Context, f func(context.Context) error) error {
	return withRetry(ctx, minOpenBackoff, func() (bool, error) {
		err := f(ctx)
		return err == nil, err
	})
}

// maxExitDelay bounds the time until the API server reports an exit that the node
// knows of.
const maxExitDelay = 10 * time.Second

// resume starts process 1 of a container that was never started, or that has
// exited, and calls change. If the API server does not report its exit yet, resume
// waits for that, because a restart is recorded by the number of exits.
func (r *Runtime) resume(ctx context.Context, id string, change func(context.Context) error) error {
	pod, isNew, err := r.prepare(ctx, id)
	if err != nil {
		return err
	}
	if stateOf(pod) != runtime.Exited && isNew {
		return withOpenRetry(ctx, change)
	}
	if stateOf(pod) != runtime.Exited && !isTerminal(pod) {
		if pod, err = r.awaitExit(ctx, pod); err != nil {
			return err
		}
	}
	return r.resumeExited(ctx, pod, change)
}

// awaitExit waits until the API server reports the exit of a container.
func (r *Runtime) awaitExit(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxExitDelay,
		fmt.Errorf("%w: its main process does not run, and no exit is reported", runtime.ErrUnavailable))
	defer cancel()
	err := r.awaitPod(ctx, pod, func(now *corev1.Pod) (bool, error) {
		if now == nil {
			return false, fmt.Errorf("%w: its pod was deleted", runtime.ErrNotFound)
		}
		pod = now
		return stateOf(now) == runtime.Exited || isTerminal(now), nil
	})
	return pod, err
}

// explainStartError explains why a container that did run is unreachable.
func (r *Runtime) explainStartError(ctx context.Context, id string, err error) error {
	pod, lookupErr := r.lookup(ctx, id)
	if lookupErr == nil && stateOf(pod) == runtime.Exited {
		return fmt.Errorf("%w: it exited (exit code %d): %w", runtime.ErrNotRunning, historyOf(pod).last.code, err)
	}
	return err
}

// awaitRunning waits until process 1 runs, or until it is known that it never
// will.
func (r *Runtime) awaitRunning(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var scheduling *time.Timer // for a node
	err := r.awaitPod(ctx, pod, func(now *corev1.Pod) (bool, error) {
		if now == nil {
			return false, fmt.Errorf("%w: its pod was deleted", runtime.ErrNotFound)
		}
		pod = now
		reason, _ := unschedulable(now)
		switch {
		case reason == "" && scheduling != nil:
			scheduling.Stop()
			scheduling = nil
		case reason != "" && scheduling == nil:
			scheduling = time.AfterFunc(schedulingTimeout, func() {
				cancel(fmt.Errorf("%w: no node accepts it: %s", runtime.ErrInvalid, reason))
			})
		}
		history := historyOf(now)
		if history.hasExited() && !history.last.startFailed {
			return false, fmt.Errorf("%w: it exited at once (exit code %d)", runtime.ErrNotRunning, history.last.code)
		}
		return history.running, startError(now)
	})
	if scheduling != nil {
		scheduling.Stop()
	}
	return pod, err
}

// restartTimeout bounds the time until the kubelet has restarted a container. It
// is twice the longest backoff. A tenant can make every start fail, for example by
// filling the volumes in memory, which outlive the container.
const restartTimeout = 10 * time.Minute

// errNotRestarted is the cause when restartTimeout has passed.
var errNotRestarted = errors.New("not restarted before the deadline")

// notRestarted returns the error for a container that was not restarted within
// restartTimeout, or the cluster's if the pod cannot be read.
func (r *Runtime) notRestarted(ctx context.Context, pod *corev1.Pod) error {
	now, err := r.lookup(ctx, pod.Labels[labelContainer])
	if err != nil {
		return err
	}
	reason := "its pod reports no reason"
	if c := containerStatus(now); c != nil && c.State.Waiting != nil {
		reason = c.State.Waiting.Reason + " " + c.State.Waiting.Message
	}
	return fmt.Errorf("%w: the kubelet has not restarted it within %s: %s", runtime.ErrNotRunning, restartTimeout, reason)
}

// resumeExited calls change when the shim of a container that has exited runs. The
// kubelet has started it again, or will; the more often the container has exited
// recently, the longer the kubelet's delay.
func (r *Runtime) resumeExited(ctx context.Context, pod *corev1.Pod, change func(context.Context) error) error {
	if isTerminal(pod) {
		return fmt.Errorf("%w: %s", runtime.ErrNotRunning, terminationReason(pod))
	}
	id := pod.Labels[labelContainer]
	bounded, cancel := context.WithTimeoutCause(ctx, restartTimeout, errNotRestarted)
	defer cancel()
	err := r.awaitPod(bounded, pod, func(now *corev1.Pod) (bool, error) {
		if now == nil {
			return false, fmt.Errorf("%w: its pod was deleted", runtime.ErrNotFound)
		}
		if isTerminal(now) {
			return false, fmt.Errorf("%w: %s", runtime.ErrNotRunning, terminationReason(now))
		}
		history := historyOf(now)
		r.unrecorded.Store(id, history.exits)
		return history.running, nil
	})
	if context.Cause(bounded) == errNotRestarted && err != nil { //nolint:errorlint // the cause that was set
		return r.notRestarted(ctx, pod)
	}
	if err != nil {
		return err
	}
	return withOpenRetry(ctx, change)
}

// restarted records that a container runs after an exit, if that may not be
// recorded. It is called after the start: if we are killed in between, a running
// container is taken for an exited one, and not the other way round. The next
// session finds that, and the next restart records it.
func (r *Runtime) restarted(ctx context.Context, id string) error {
	exits, found := r.unrecorded.Load(id)
	if !found {
		return nil
	}
	pod, err := r.lookup(ctx, id)
	if err != nil {
		return err
	}
	// If it has exited again, the start that is to be recorded was an earlier one.
	if history := historyOf(pod); history.hasExited() && history.exits == exits {
		_, err := r.patch(ctx, pod, map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{annotationRestarted: strconv.Itoa(history.exits)}}})
		if err != nil {
			return err
		}
	}
	r.unrecorded.CompareAndDelete(id, exits)
	return nil
}

// patch changes exactly this pod: one of the same name and another identity is a
// conflict.
func (r *Runtime) patch(ctx context.Context, pod *corev1.Pod, change map[string]any) (*corev1.Pod, error) {
	meta, ok := change["metadata"].(map[string]any)
	if !ok {
		meta = make(map[string]any)
		change["metadata"] = meta
	}
	meta["uid"] = string(pod.UID)
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	patched, err := r.pods.Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return patched, r.apiError(ctx, err)
}

// Destroy is runtime.Lifecycle.Destroy. The kubelet asks the shim to stop and
// enforces the pod's grace period. The pod is removed from the cluster when its
// node reports that nothing of it runs.
func (r *Runtime) Destroy(ctx context.Context, id string) error {
	if err := r.destroy(ctx, id); err != nil {
		return fmt.Errorf("destroy the container %s: %w", id, err)
	}
	r.sessions.Remove(id)
	r.unrecorded.Delete(id)
	return nil
}

func (r *Runtime) destroy(ctx context.Context, id string) error {
	pod, err := r.lookupRemovable(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	// A second deletion does not extend the pod's grace period.
	grace := time.Second * stopMargin
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	if keepsState(pod) {
		// Otherwise the shim takes the deletion for someone else's, and stays for an
		// upload. If it cannot be asked, it does that.
		halted, cancel := context.WithTimeout(ctx, grace)
		_ = r.sessions.Get(id).Halt(halted)
		cancel()
	}
	err = r.pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return r.apiError(ctx, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, grace+maxWait, fmt.Errorf(
		"%w: the node %s has not reported that nothing of it runs", runtime.ErrUnavailable, pod.Spec.NodeName))
	defer cancel()
	return r.awaitPod(ctx, pod, func(now *corev1.Pod) (bool, error) { return now == nil, nil })
}

// keepsState reports whether a pod is of a Spec that KeepsState.
func keepsState(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
			config, err := shim.ParseConfig(e.Value)
			return e.Name == shim.ConfigEnv && err == nil && config.StaysForState
		})
	})
}
