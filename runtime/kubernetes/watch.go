package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hostler/hostler/runtime"
)

// Watch is runtime.Observer.Watch. Exits while the watch is interrupted are
// reported when it resumes.
func (r *Runtime) Watch(ctx context.Context, ready func(), onExit func(runtime.Exit)) error {
	err := r.watchPods(ctx, func(o *metav1.ListOptions) { o.LabelSelector = r.instanceSelector() }, newExitTracker(ready, onExit))
	if ctx.Err() != nil {
		return nil // the caller ended the watch
	}
	return fmt.Errorf("watch the containers: %w", err)
}

// exitTracker reports one exit for the several changes that describe it.
type exitTracker struct {
	ready  func()
	onExit func(runtime.Exit)
	known  map[types.UID]*podRecord // nil before the first onSync
}

// podRecord is what was reported of one pod.
type podRecord struct {
	id        string
	restarted int  // as of its last containerHistory
	exited    bool // it does not run, and that was reported
	condition runtime.Condition
}

func newExitTracker(ready func(), onExit func(runtime.Exit)) *exitTracker {
	return &exitTracker{ready: ready, onExit: onExit}
}

// onSync compares with the known pods. The first time there are none: earlier
// exits are not reported.
func (o *exitTracker) onSync(pods []*corev1.Pod) {
	if o.known == nil {
		o.known = make(map[types.UID]*podRecord)
		for _, pod := range pods {
			now := historyOf(pod)
			o.known[pod.UID] = &podRecord{
				id: pod.Labels[labelContainer], restarted: now.restarted, exited: hasExited(pod, now), condition: conditionOf(pod),
			}
		}
		o.ready()
		return
	}
	present := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		present[pod.UID] = true
		o.onUpdate(pod)
	}
	for uid, l := range o.known {
		if !present[uid] {
			o.remove(uid, l)
		}
	}
}

// hasExited reports whether nothing of a pod runs. One that is being deleted may
// still run: its exit follows.
func hasExited(pod *corev1.Pod, now containerHistory) bool {
	return hasEnded(pod) || now.hasExited()
}

func (o *exitTracker) onUpdate(pod *corev1.Pod) {
	l := o.known[pod.UID]
	if l == nil {
		l = &podRecord{id: pod.Labels[labelContainer]}
		o.known[pod.UID] = l
	}
	now := historyOf(pod)
	ended := hasExited(pod, now)
	// A restart and another exit may be observed together.
	if ended && (!l.exited || now.restarted != l.restarted) {
		o.report(l.id, now.last)
	}
	l.restarted, l.exited = now.restarted, ended
	o.reportCondition(l, conditionOf(pod))
}

// reportCondition reports a condition that has changed, unless the exit has been
// reported.
func (o *exitTracker) reportCondition(l *podRecord, now runtime.Condition) {
	before := l.condition
	l.condition = now
	if now == before || l.exited {
		return
	}
	o.onExit(runtime.Exit{ID: l.id, Condition: cmp.Or(now, runtime.Reachable), Time: time.Now()})
}

func (o *exitTracker) onDelete(pod *corev1.Pod) {
	if l := o.known[pod.UID]; l != nil {
		l.condition = conditionOf(pod) // its exit follows
	}
	o.onUpdate(pod)
	o.remove(pod.UID, o.known[pod.UID])
}

// remove forgets a pod that does not exist any more. If it ran when last
// observed, because it was removed by force or its node was lost, its exit is
// reported.
func (o *exitTracker) remove(uid types.UID, l *podRecord) {
	if !l.exited {
		o.report(l.id, exitStatus{code: unknownExitCode})
	}
	delete(o.known, uid)
}

func (o *exitTracker) report(id string, last exitStatus) {
	if last.finishedAt.IsZero() {
		last.finishedAt = time.Now()
	}
	o.onExit(runtime.Exit{ID: id, ExitCode: last.code, OOMKilled: last.oom, Time: last.finishedAt})
}
