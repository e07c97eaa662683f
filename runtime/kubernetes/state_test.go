package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/backend"
)

// newTestPod returns a pod whose container has been started again so often, runs or
// has exited with a code, and was restarted so often after an exit.
func newTestPod(restarts int32, running bool, code int32, restarted int) *corev1.Pod {
	ended := &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Unix(1700000000, 0)}
	c := corev1.ContainerStatus{Name: mainContainer, RestartCount: restarts}
	if running {
		c.State.Running = &corev1.ContainerStateRunning{}
	} else {
		c.State.Terminated = ended
	}
	if restarts > 0 {
		c.LastTerminationState.Terminated = ended
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: "u1", Labels: map[string]string{labelContainer: "c1"},
			Annotations: map[string]string{annotationRestarted: strconv.Itoa(restarted)},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{c}},
	}
}

// waiting returns the pod as the kubelet reports it before the next start.
func waiting(pod *corev1.Pod) *corev1.Pod {
	c := &pod.Status.ContainerStatuses[0]
	c.LastTerminationState.Terminated = c.State.Terminated
	c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	return pod
}

// A container has exited when it has exited at another time than when it was
// restarted, whatever the kubelet has done since.
func TestStateOf(t *testing.T) {
	deleted, ended := newTestPod(0, true, 0, 0), newTestPod(0, false, 3, 0)
	deleted.DeletionTimestamp, ended.DeletionTimestamp = &metav1.Time{}, &metav1.Time{}
	lost := notReady(newTestPod(0, true, 0, 0))
	gated := notReady(newTestPod(0, true, 0, 0))
	gated.Status.Conditions[0].Reason = "ReadinessGatesNotReady"
	evicted := newTestPod(0, true, 0, 0)
	evicted.Status.Phase = corev1.PodFailed
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want runtime.State
		code int
	}{
		"not processed yet":            {&corev1.Pod{}, runtime.Created, 0},
		"runs":                         {newTestPod(0, true, 0, 0), runtime.Running, 0},
		"has exited":                   {newTestPod(0, false, 3, 0), runtime.Exited, 3},
		"the shim was started again":   {newTestPod(1, true, 3, 0), runtime.Exited, 3},
		"was restarted":                {newTestPod(1, true, 3, 1), runtime.Running, 0},
		"was restarted and has exited": {newTestPod(1, false, 4, 1), runtime.Exited, 4},
		"exited twice, was restarted":  {newTestPod(2, true, 3, 1), runtime.Exited, 3},
		"waits for its next start":     {waiting(newTestPod(1, false, 4, 1)), runtime.Exited, 4},
		"the node lost its records":    {newTestPod(1, true, 3, 2), runtime.Exited, 3},
		"is being deleted":             {deleted, runtime.Running, 0},
		"has exited, is being deleted": {ended, runtime.Exited, 3},
		"its node is lost":             {lost, runtime.Running, 0},
		"a readiness gate is closed":   {gated, runtime.Running, 0},
		"evicted":                      {evicted, runtime.Exited, unknownExitCode},
	} {
		t.Run(name, func(t *testing.T) {
			s := statusOf(test.pod)
			require.Equal(t, test.want, s.State)
			require.Equal(t, test.code, s.ExitCode)
			conditions := map[*corev1.Pod]runtime.Condition{deleted: runtime.Terminating, ended: runtime.Terminating, lost: runtime.Unreachable}
			require.Equal(t, conditions[test.pod], s.Condition)
		})
	}
}

// notReady returns the pod as the cluster reports it once its node does not report.
func notReady(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	return pod
}

// A change of a condition is reported once, and not after an exit.
func TestConditionReportedOnce(t *testing.T) {
	deleting := func(running bool) *corev1.Pod {
		pod := newTestPod(0, running, 3, 0)
		pod.DeletionTimestamp = &metav1.Time{}
		return pod
	}
	type report struct {
		condition runtime.Condition
		code      int
	}
	var got []report
	o := newExitTracker(func() {}, func(d runtime.Exit) { got = append(got, report{d.Condition, d.ExitCode}) })
	o.onSync([]*corev1.Pod{newTestPod(0, true, 0, 0)})
	o.onUpdate(notReady(newTestPod(0, true, 0, 0)))
	o.onUpdate(notReady(newTestPod(0, true, 0, 0)))
	o.onUpdate(newTestPod(0, true, 0, 0))
	o.onUpdate(deleting(true))
	o.onUpdate(deleting(true))
	o.onUpdate(deleting(false))
	o.onDelete(deleting(false))
	require.Equal(t, []report{{runtime.Unreachable, 0}, {runtime.Reachable, 0}, {runtime.Terminating, 0}, {"", 3}}, got)
}

// If memory ran out in another process, that has not ended the main one.
func TestOOMKilled(t *testing.T) {
	for code, want := range map[int32]bool{137: true, 1: false} {
		p := newTestPod(0, false, code, 0)
		p.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
		require.Equal(t, want, statusOf(p).OOMKilled)
	}
}

// However many changes describe an exit, it is reported once, and exits before
// ready are not reported.
func TestExitReportedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		first []*corev1.Pod
		then  func(o *exitTracker)
		want  []int // exit codes
	}{
		"nothing":                {[]*corev1.Pod{newTestPod(0, true, 0, 0)}, func(*exitTracker) {}, nil},
		"exited before":          {[]*corev1.Pod{newTestPod(1, true, 3, 0)}, func(o *exitTracker) { o.onUpdate(newTestPod(1, true, 3, 0)) }, nil},
		"exited before, removed": {[]*corev1.Pod{newTestPod(1, true, 3, 0)}, func(o *exitTracker) { o.onDelete(newTestPod(1, true, 3, 0)) }, nil},
		"new and running":        {nil, func(o *exitTracker) { o.onUpdate(newTestPod(0, true, 0, 0)) }, nil},
		"new and exited":         {nil, func(o *exitTracker) { o.onUpdate(newTestPod(0, false, 2, 0)) }, []int{2}},
		"vanishes":               {[]*corev1.Pod{newTestPod(0, true, 0, 0)}, func(o *exitTracker) { o.onDelete(newTestPod(0, true, 0, 0)) }, []int{-1}},
		"exits, then removed":    {[]*corev1.Pod{newTestPod(0, true, 0, 0)}, func(o *exitTracker) { o.onDelete(newTestPod(0, false, 7, 0)) }, []int{7}},
		"removed during a gap":   {[]*corev1.Pod{newTestPod(0, true, 0, 0)}, func(o *exitTracker) { o.onSync(nil) }, []int{-1}},
		"exited during a gap":    {[]*corev1.Pod{newTestPod(0, true, 0, 0)}, func(o *exitTracker) { o.onSync([]*corev1.Pod{newTestPod(1, true, 5, 0)}) }, []int{5}},
		"the kubelet starts the shim, which ends with the pod": {[]*corev1.Pod{newTestPod(0, true, 0, 0)}, func(o *exitTracker) {
			o.onUpdate(newTestPod(0, false, 1, 0))
			o.onUpdate(newTestPod(1, true, 1, 0))
			o.onUpdate(newTestPod(1, false, 0, 0))
			o.onDelete(newTestPod(1, false, 0, 0))
		}, []int{1}},
		"restarted, exits again": {[]*corev1.Pod{newTestPod(0, true, 0, 0)}, func(o *exitTracker) {
			o.onUpdate(newTestPod(0, false, 1, 0))
			o.onUpdate(newTestPod(1, true, 1, 0))
			o.onUpdate(newTestPod(1, true, 1, 1))
			o.onUpdate(newTestPod(1, false, 2, 1))
		}, []int{1, 2}},
		"restarted, exits again, observed together": {[]*corev1.Pod{newTestPod(0, true, 0, 0)}, func(o *exitTracker) {
			o.onUpdate(newTestPod(0, false, 1, 0))
			o.onUpdate(newTestPod(1, false, 2, 1))
		}, []int{1, 2}},
		"exits again, and waits for its next start": {[]*corev1.Pod{newTestPod(1, true, 1, 1)}, func(o *exitTracker) {
			o.onUpdate(newTestPod(1, false, 2, 1))
			o.onUpdate(waiting(newTestPod(1, false, 2, 1)))
			o.onUpdate(newTestPod(2, true, 2, 1))
		}, []int{2}},
		"evicted": {[]*corev1.Pod{newTestPod(0, true, 0, 0)}, func(o *exitTracker) {
			p := newTestPod(0, true, 0, 0)
			p.Status.Phase, p.Status.ContainerStatuses = corev1.PodFailed, nil
			o.onUpdate(p)
			o.onDelete(p)
		}, []int{-1}},
		"another of the same name": {[]*corev1.Pod{newTestPod(0, true, 0, 0)}, func(o *exitTracker) {
			p := newTestPod(0, true, 0, 0)
			p.UID = "u2"
			o.onSync([]*corev1.Pod{p})
		}, []int{-1}},
	} {
		t.Run(name, func(t *testing.T) {
			var codes []int
			ready := 0
			o := newExitTracker(func() { ready++ }, func(d runtime.Exit) {
				require.Equal(t, "c1", d.ID)
				require.False(t, d.Time.IsZero())
				codes = append(codes, d.ExitCode)
			})
			o.onSync(test.first)
			test.then(o)
			require.Equal(t, test.want, codes)
			require.Equal(t, 1, ready)
		})
	}
}

// The reason why a pod does not start is reported as soon as its status has it.
func TestStartErrorFromPodStatus(t *testing.T) {
	waiting := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: mainContainer, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "the cluster's words"}}}
	}
	failed := corev1.ContainerStatus{Name: installContainer, LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "the cluster's words"}}}
	broken := corev1.ContainerStatus{Name: mainContainer, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: "the cluster's words: permission denied"}}}
	troubled := corev1.ContainerStatus{Name: mainContainer, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: "the cluster's words: context canceled"}}}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		want   error
	}{
		"nothing yet":    {corev1.PodStatus{}, nil},
		"being made":     {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ContainerCreating")}}, nil},
		"no image":       {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ErrImagePull")}}, runtime.ErrImageUnavailable},
		"no shim image":  {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{waiting("ImagePullBackOff")}}, runtime.ErrImageUnavailable},
		"not configured": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("CreateContainerConfigError")}}, runtime.ErrInvalid},
		"not installed":  {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{failed}}, runtime.ErrInvalid},
		"no process 1":   {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{broken}}, runtime.ErrInvalid},
		"a busy node":    {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{troubled}}, runtime.ErrUnavailable},
		"evicted":        {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "the cluster's words"}, runtime.ErrNotRunning},
	} {
		t.Run(name, func(t *testing.T) {
			err := startError(&corev1.Pod{Status: test.status})
			require.ErrorIs(t, err, test.want)
			if test.want != nil {
				require.ErrorContains(t, err, "the cluster's words")
			}
		})
	}
}

// Each kind of response has one meaning, however deep it is wrapped.
func TestAPIErrors(t *testing.T) {
	r := &Runtime{config: &rest.Config{Host: "there"}}
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		err  error
		want error
	}{
		"not found":     {apierrors.NewNotFound(pods, "x"), runtime.ErrNotFound},
		"another pod":   {apierrors.NewConflict(pods, "x", errors.New("uid")), runtime.ErrUnavailable},
		"invalid":       {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil), runtime.ErrInvalid},
		"bad request":   {apierrors.NewBadRequest("x"), runtime.ErrInvalid},
		"read too late": {apierrors.NewResourceExpired("x"), runtime.ErrUnavailable},
		"unauthorized":  {apierrors.NewUnauthorized("x"), runtime.ErrUnavailable},
		"not allowed":   {apierrors.NewForbidden(pods, "x", errors.New("rbac")), runtime.ErrUnavailable},
		"too busy":      {apierrors.NewTooManyRequests("x", 1), runtime.ErrUnavailable},
		"broken":        {apierrors.NewInternalError(errors.New("x")), runtime.ErrUnavailable},
		"a proxy's":     {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 502}}, runtime.ErrUnavailable},
		"no response":   {&networkError{io.EOF}, runtime.ErrUnavailable},
		"network":       {&net.OpError{Op: "dial", Err: errors.New("x")}, runtime.ErrUnavailable},
		"disconnected":  {io.ErrUnexpectedEOF, runtime.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			err := r.apiError(t.Context(), fmt.Errorf("do it: %w", test.err))
			require.ErrorIs(t, err, test.want)
		})
	}
	require.NoError(t, r.apiError(t.Context(), nil))
	require.ErrorIs(t, r.createError(t.Context(), apierrors.NewForbidden(pods, "x", errors.New("quota"))), runtime.ErrInvalid)
	ended, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	require.Equal(t, cause, r.apiError(ended, io.EOF), "the caller's cause has precedence")
}

// The mounts of a container are those of its workload's container, with the
// writable mirror of a volume under the volume's name.
func TestMainMounts(t *testing.T) {
	spec := runtime.Spec{ID: "x", Volumes: []runtime.Volume{
		{Name: "data", Target: "/data"}, {Name: "seed", Target: "/data/seed/", ReadOnly: true}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "other", VolumeMounts: []corev1.VolumeMount{{Name: "x", MountPath: "/data"}}},
		{Name: mainContainer, VolumeMounts: mounts(spec, emptyDirs(spec), account{root: true})}}}}
	found := mainMounts(pod)
	for _, want := range []backend.Mount{
		{Volume: "volume-0", Target: "/data"}, {Volume: "volume-1", Target: "/data/seed/", ReadOnly: true},
		{Volume: "volume-1", Target: shim.WritableMirrorDir + "/volume-1"},
	} {
		require.Contains(t, found, want)
	}
	require.NotContains(t, found, backend.Mount{Volume: "x", Target: "/data"})
}

// Of the stderr of our programs the beginning is kept.
func TestHeadBuffer(t *testing.T) {
	f := headBuffer{limit: 5}
	for _, s := range []string{"ab", "cdef", "g"} {
		n, err := f.Write([]byte(s))
		require.NoError(t, err)
		require.Equal(t, len(s), n)
	}
	require.Equal(t, "abcde", f.text())
}

// A registry is queried once for concurrent callers, and again when the cached
// description has expired.
func TestImageCache(t *testing.T) {
	var i images
	i.addToCache("a", imageConfig{ref: "a@1"})
	found, ok := i.cached("a")
	require.True(t, ok)
	require.Equal(t, "a@1", found.ref)
	i.cache["a"] = cachedImage{found, time.Now().Add(-2 * imageCacheTTL)}
	_, ok = i.cached("a")
	require.False(t, ok)
	for n := range 3 * maxCachedImages {
		i.addToCache(strconv.Itoa(n), found)
		require.LessOrEqual(t, len(i.cache), maxCachedImages)
	}
}
