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

// podHandler handles the changes of some pods. Its methods are called one at a
// time.
type podHandler interface {
	// onSync receives every pod that exists, first and whenever the watch had to
	// be started again: a pod that is not among them was removed.
	onSync(pods []*corev1.Pod)
	// onUpdate receives the current state of one pod.
	onUpdate(pod *corev1.Pod)
	// onDelete receives the last state of a pod that was removed.
	onDelete(pod *corev1.Pod)
}

// watchPods passes the changes of the selected pods to a handler, until ctx ends
// or the server is lost. A watch that is interrupted resumes where it was; the
// client's reflector does that.
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
		// The server ends every watch after some minutes.
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isExpired reports whether a watch cannot resume where it was interrupted: it
// then starts again.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// opaqueError hides an error's kind from the reflector: for an overloaded server
// the reflector would wait half a minute without checking the context.
type opaqueError struct{ err error }

func (d opaqueError) Error() string { return d.err.Error() }

// watchError converts the end of the server's watch, whatever its cause.
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

// watchInterruptedError reports the loss of a server during a watch: until then
// the server did respond.
type watchInterruptedError struct{ error }

func (c watchInterruptedError) Unwrap() error { return c.error }

// reflectorStore passes on what a reflector would store.
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

// awaitPod watches one pod until the condition is met or returns an error. The
// condition gets the current pod, again after every change, and nil once no pod
// of that identity exists. If the server is lost, awaitPod waits for it for a
// limited time.
func (r *Runtime) awaitPod(ctx context.Context, pod *corev1.Pod, condition func(*corev1.Pod) (done bool, err error)) error {
	return withRetry(ctx, minAwaitBackoff, func() (bool, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		w := &podWaiter{pod: pod, condition: condition, cancel: cancel}
		err := r.watchPods(ctx, func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.name=" + pod.Name
			if o.ResourceVersion == "0" {
				// A cached state might be from before the pod was created, which
				// would look as if it had been removed.
				o.ResourceVersion = pod.ResourceVersion
			}
		}, w)
		if errors.Is(err, errConditionMet) {
			return true, nil
		}
		return false, err
	})
}

// withRetry retries with backoff while the server does not respond, and returns
// the last error when its timeout passes or the context ends. The timeout begins
// with the first missing response, however long the attempts took before: an
// image pull may take longer than a server is unavailable.
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

// errConditionMet ends an awaitPod whose condition is met.
var errConditionMet = errors.New("condition met")

// podWaiter is the handler of awaitPod.
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
