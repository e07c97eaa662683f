package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/hostler/hostler/runtime"
)

// podHandler is told what becomes of some pods. Its methods are called one at a
// time.
type podHandler interface {
	// onSync is every pod there is, in the beginning and whenever the account had
	// to be begun anew: what is not among them is gone.
	onSync(pods []*corev1.Pod)
	// onUpdate is one pod as it is now.
	onUpdate(pod *corev1.Pod)
	// onDelete is the last state of a pod that was removed.
	onDelete(pod *corev1.Pod)
}

// watchPods tells a follower what becomes of the selected pods, until ctx ends or
// the server is lost. An account that breaks off is taken up where it broke,
// which is the client's reflector's work.
func (r *Runtime) watchPods(ctx context.Context, selectPods func(*metav1.ListOptions), f podHandler) error {
	ctx = klog.NewContext(ctx, r.log)
	watching := false
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
			selectPods(&o)
			return r.pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			selectPods(&o)
			w, err := r.pods.Watch(ctx, o)
			if apierrors.IsTooManyRequests(err) {
				err = opaqueError{err}
			}
			watching = watching || err == nil
			return w, err
		},
	}
	reflector := cache.NewReflectorWithOptions(source, &corev1.Pod{}, reflectorStore{f}, cache.ReflectorOptions{Name: "hostler"})
	ticker := time.NewTicker(watchRestartInterval)
	defer ticker.Stop()
	for {
		err := reflector.ListAndWatchWithContext(ctx)
		if err != nil && !isExpired(err) {
			if err = r.watchError(ctx, err); watching && ctx.Err() == nil {
				return watchInterruptedError{err}
			}
			return err
		}
		// The server ends every account after some minutes.
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isExpired is an account that cannot be taken up where it broke: it is begun
// anew.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// opaqueError is an error that the reflector does not see through: for a server that
// has too much to do it would wait half a minute without an eye on the context.
type opaqueError struct{ err error }

func (d opaqueError) Error() string { return d.err.Error() }

// watchError is the end of the server's account, whatever the reason.
func (r *Runtime) watchError(ctx context.Context, err error) error {
	if d, ok := errors.AsType[opaqueError](err); ok {
		err = d.err
	}
	converted := r.apiError(ctx, err)
	if ctx.Err() != nil || errors.Is(converted, runtime.ErrUnavailable) {
		return converted
	}
	return fmt.Errorf("%w: %w", runtime.ErrUnavailable, converted)
}

// watchInterruptedError is the loss of a server whose account we had been following: up to
// then it did answer.
type watchInterruptedError struct{ error }

func (c watchInterruptedError) Unwrap() error { return c.error }

// reflectorStore passes on what a reflector would keep.
type reflectorStore struct{ podHandler }

func (t reflectorStore) Add(object any) error    { return t.Update(object) }
func (t reflectorStore) Update(object any) error { t.onUpdate(object.(*corev1.Pod)); return nil }
func (t reflectorStore) Delete(object any) error { t.onDelete(object.(*corev1.Pod)); return nil }
func (t reflectorStore) Resync() error           { return nil }

func (t reflectorStore) Replace(objects []any, _ string) error {
	pods := make([]*corev1.Pod, len(objects))
	for i, object := range objects {
		pods[i] = object.(*corev1.Pod)
	}
	t.onSync(pods)
	return nil
}

// awaitPod follows one pod until the judge is content or has seen enough. It is
// shown the pod as it is, again after every change, and nil once there is none
// of that identity. A server that is lost on the way is waited for a while.
func (r *Runtime) awaitPod(ctx context.Context, pod *corev1.Pod, condition func(*corev1.Pod) (done bool, err error)) error {
	return withRetry(ctx, minAwaitBackoff, func() (bool, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		w := &podWaiter{pod: pod, condition: condition, cancel: cancel}
		err := r.watchPods(ctx, func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.name=" + pod.Name
			if o.ResourceVersion == "0" {
				// Whatever the server has at hand might be from before the pod
				// was made, which would look as if it were gone.
				o.ResourceVersion = pod.ResourceVersion
			}
		}, w)
		if errors.Is(err, errConditionMet) {
			return true, nil
		}
		return false, err
	})
}

// withRetry asks again while the answer is that nothing answers, less and less
// often, and gives the last answer when its patience or the context is at an
// end. Its patience begins when nothing answers, however long it took to come
// to that: an image may be pulled for longer than a server is away.
func withRetry(ctx context.Context, backoff time.Duration, attempt func() (done bool, err error)) error {
	var limit <-chan time.Time
	for ; ; backoff = min(backoff+backoff/4, maxBackoff) {
		done, err := attempt()
		if done || err != nil && !errors.Is(err, runtime.ErrUnavailable) {
			return err
		}
		if _, answered := errors.AsType[watchInterruptedError](err); answered || limit == nil {
			limit = time.After(maxWait)
		}
		select {
		case <-time.After(backoff):
		case <-limit:
			return err
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(err, cause) {
				err = errors.Join(cause, err)
			}
			return err
		}
	}
}

// errConditionMet ends an await that has seen what it waited for.
var errConditionMet = errors.New("seen")

// podWaiter is the follower of await.
type podWaiter struct {
	pod       *corev1.Pod
	condition func(*corev1.Pod) (bool, error)
	cancel    context.CancelCauseFunc
}

func (w *podWaiter) onSync(pods []*corev1.Pod) {
	for _, pod := range pods {
		if pod.UID == w.pod.UID {
			w.onUpdate(pod)
			return
		}
	}
	w.evaluate(nil)
}

func (w *podWaiter) onUpdate(pod *corev1.Pod) {
	if pod.UID == w.pod.UID {
		w.evaluate(pod)
	}
}

func (w *podWaiter) onDelete(pod *corev1.Pod) {
	if pod.UID == w.pod.UID {
		w.evaluate(nil)
	}
}

func (w *podWaiter) evaluate(pod *corev1.Pod) {
	done, err := w.condition(pod)
	if err != nil {
		w.cancel(err)
	} else if done {
		w.cancel(errConditionMet)
	}
}
