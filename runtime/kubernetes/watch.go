package kubernetes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hostler/hostler/runtime"
)

// Watch is runtime.Observer.Watch. Deaths while the account is interrupted are
// told when it is taken up again.
func (r *Runtime) Watch(ctx context.Context, ready func(), died func(runtime.Death)) error {
	err := r.follow(ctx, func(o *metav1.ListOptions) { o.LabelSelector = r.ours() }, newObituary(ready, died))
	if ctx.Err() != nil {
		return nil // the caller has had enough
	}
	return fmt.Errorf("watch the containers: %w", err)
}

// obituary makes one death of the several changes that tell of it.
type obituary struct {
	ready func()
	died  func(runtime.Death)
	known map[types.UID]*lived // nil before the first account
}

// lived is what was told of one pod.
type lived struct {
	id      string
	revived int  // as lifeOf saw it last
	ended   bool // it does not run, and that is told
}

func newObituary(ready func(), died func(runtime.Death)) *obituary {
	return &obituary{ready: ready, died: died}
}

// all compares with what was known. In the beginning that is nothing: what died
// before is not ours to tell.
func (o *obituary) all(pods []*corev1.Pod) {
	if o.known == nil {
		o.known = make(map[types.UID]*lived)
		for _, pod := range pods {
			now := lifeOf(pod)
			o.known[pod.UID] = &lived{id: pod.Labels[labelContainer], revived: now.revived, ended: hasEnded(pod, now)}
		}
		o.ready()
		return
	}
	there := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		there[pod.UID] = true
		o.changed(pod)
	}
	for uid, l := range o.known {
		if !there[uid] {
			o.bury(uid, l)
		}
	}
}

// hasEnded is whether nothing of a pod runs. One that is being deleted may run
// still: its death comes.
func hasEnded(pod *corev1.Pod, now life) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded || now.deaths > now.revived
}

func (o *obituary) changed(pod *corev1.Pod) {
	l := o.known[pod.UID]
	if l == nil {
		l = &lived{id: pod.Labels[labelContainer]}
		o.known[pod.UID] = l
	}
	now := lifeOf(pod)
	ended := hasEnded(pod, now)
	// One that was brought back and has ended again may be seen at once.
	if ended && (!l.ended || now.revived > l.revived) {
		o.tell(l.id, now.last)
	}
	l.revived, l.ended = now.revived, ended
}

func (o *obituary) gone(pod *corev1.Pod) {
	o.changed(pod)
	o.bury(pod.UID, o.known[pod.UID])
}

// bury forgets a pod that is no more. One that ran to our knowledge, for it was
// removed by force or its node was lost, is told dead.
func (o *obituary) bury(uid types.UID, l *lived) {
	if !l.ended {
		o.tell(l.id, end{code: unknownCode})
	}
	delete(o.known, uid)
}

func (o *obituary) tell(id string, last end) {
	if last.time.IsZero() {
		last.time = time.Now()
	}
	o.died(runtime.Death{ID: id, ExitCode: last.code, OOMKilled: last.oom, Time: last.time})
}
