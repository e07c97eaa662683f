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

// follower is told what becomes of some pods. Its methods are called one at a
// time.
type follower interface {
	// all is every pod there is, in the beginning and whenever the account had
	// to be begun anew: what is not among them is gone.
	all(pods []*corev1.Pod)
	// changed is one pod as it is now.
	changed(pod *corev1.Pod)
	// gone is the last state of a pod that was removed.
	gone(pod *corev1.Pod)
}

// follow tells a follower what becomes of the selected pods, until ctx ends or
// the server is lost. An account that breaks off is taken up where it broke,
// which is the client's reflector's work.
func (r *Runtime) follow(ctx context.Context, selected func(*metav1.ListOptions), f follower) error {
	ctx = klog.NewContext(ctx, r.log)
	listening := false
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
			selected(&o)
			return r.pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			selected(&o)
			w, err := r.pods.Watch(ctx, o)
			if apierrors.IsTooManyRequests(err) {
				err = deaf{err}
			}
			listening = listening || err == nil
			return w, err
		},
	}
	account := cache.NewReflectorWithOptions(source, &corev1.Pod{}, told{f}, cache.ReflectorOptions{Name: "hostler"})
	again := time.NewTicker(followPause)
	defer again.Stop()
	for {
		err := account.ListAndWatchWithContext(ctx)
		if err != nil && !tooOld(err) {
			if err = r.lost(ctx, err); listening && ctx.Err() == nil {
				return cutOff{err}
			}
			return err
		}
		// The server ends every account after some minutes.
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tooOld is an account that cannot be taken up where it broke: it is begun
// anew.
func tooOld(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// deaf is an error that the reflector does not see through: for a server that
// has too much to do it would wait half a minute without an eye on the context.
type deaf struct{ err error }

func (d deaf) Error() string { return d.err.Error() }

// lost is the end of the server's account, whatever the reason.
func (r *Runtime) lost(ctx context.Context, err error) error {
	if d, ok := errors.AsType[deaf](err); ok {
		err = d.err
	}
	turned := r.fault(ctx, err)
	if ctx.Err() != nil || errors.Is(turned, runtime.ErrUnavailable) {
		return turned
	}
	return fmt.Errorf("%w: %w", runtime.ErrUnavailable, turned)
}

// cutOff is the loss of a server whose account we had been following: up to
// then it did answer.
type cutOff struct{ error }

func (c cutOff) Unwrap() error { return c.error }

// told passes on what a reflector would keep.
type told struct{ follower }

func (t told) Add(object any) error    { return t.Update(object) }
func (t told) Update(object any) error { t.changed(object.(*corev1.Pod)); return nil }
func (t told) Delete(object any) error { t.gone(object.(*corev1.Pod)); return nil }
func (t told) Resync() error           { return nil }

func (t told) Replace(objects []any, _ string) error {
	pods := make([]*corev1.Pod, len(objects))
	for i, object := range objects {
		pods[i] = object.(*corev1.Pod)
	}
	t.all(pods)
	return nil
}

// await follows one pod until the judge is content or has seen enough. It is
// shown the pod as it is, again after every change, and nil once there is none
// of that identity. A server that is lost on the way is waited for a while.
func (r *Runtime) await(ctx context.Context, pod *corev1.Pod, judge func(*corev1.Pod) (done bool, err error)) error {
	return until(ctx, awaitPause, func() (bool, error) {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		w := &witness{of: pod, judge: judge, end: end}
		err := r.follow(ctx, func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.name=" + pod.Name
			if o.ResourceVersion == "0" {
				// Whatever the server has at hand might be from before the pod
				// was made, which would look as if it were gone.
				o.ResourceVersion = pod.ResourceVersion
			}
		}, w)
		if errors.Is(err, errContent) {
			return true, nil
		}
		return false, err
	})
}

// until asks again while the answer is that nothing answers, less and less
// often, and gives the last answer when its patience or the context is at an
// end. Its patience begins when nothing answers, however long it took to come
// to that: an image may be pulled for longer than a server is away.
func until(ctx context.Context, pause time.Duration, ask func() (done bool, err error)) error {
	var limit <-chan time.Time
	for ; ; pause = min(pause+pause/4, longestPause) {
		done, err := ask()
		if done || err != nil && !errors.Is(err, runtime.ErrUnavailable) {
			return err
		}
		if _, answered := errors.AsType[cutOff](err); answered || limit == nil {
			limit = time.After(patience)
		}
		select {
		case <-time.After(pause):
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

// errContent ends an await that has seen what it waited for.
var errContent = errors.New("seen")

// witness is the follower of await.
type witness struct {
	of    *corev1.Pod
	judge func(*corev1.Pod) (bool, error)
	end   context.CancelCauseFunc
}

func (w *witness) all(pods []*corev1.Pod) {
	for _, pod := range pods {
		if pod.UID == w.of.UID {
			w.changed(pod)
			return
		}
	}
	w.ask(nil)
}

func (w *witness) changed(pod *corev1.Pod) {
	if pod.UID == w.of.UID {
		w.ask(pod)
	}
}

func (w *witness) gone(pod *corev1.Pod) {
	if pod.UID == w.of.UID {
		w.ask(nil)
	}
}

func (w *witness) ask(pod *corev1.Pod) {
	done, err := w.judge(pod)
	if err != nil {
		w.end(err)
	} else if done {
		w.end(errContent)
	}
}
