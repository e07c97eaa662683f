package kubernetes

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/hostler/hostler/runtime"
)

// The pod has every requested setting, and one that the API server drops is
// detected.
func TestApplyIsolation(t *testing.T) {
	r := &Runtime{secret: []byte("secret")}
	want := runtime.Isolation{
		Runtime: "gvisor", SecurityOpt: []string{"seccomp=strict", "apparmor=mine"}, UsernsMode: "private"}
	pod, err := r.buildPod(runtime.Spec{ID: "c", Isolation: want}, imageConfig{ref: "i", args: []string{"x"}, user: "1"})
	require.NoError(t, err)
	require.Equal(t, "gvisor", *pod.Spec.RuntimeClassName)
	require.False(t, *pod.Spec.HostUsers)
	main := mainSecurityContext(pod)
	require.Equal(t, "profiles/strict.json", *main.SeccompProfile.LocalhostProfile)
	require.Equal(t, corev1.SeccompProfileTypeLocalhost, main.SeccompProfile.Type)
	require.Equal(t, "mine", *main.AppArmorProfile.LocalhostProfile)
	require.NoError(t, checkApplied(pod, pod.DeepCopy()))

	for field, drop := range map[string]func(*corev1.Pod){
		"runtime":      func(p *corev1.Pod) { p.Spec.RuntimeClassName = nil },
		"userns_mode":  func(p *corev1.Pod) { p.Spec.HostUsers = nil },
		"security_opt": func(p *corev1.Pod) { mainSecurityContext(p).AppArmorProfile = nil },
	} {
		got := pod.DeepCopy()
		drop(got)
		refused, ok := errors.AsType[*runtime.SpecError](checkApplied(pod, got))
		require.True(t, ok, field)
		require.Equal(t, field, refused.Field)
	}

	plain, err := r.buildPod(runtime.Spec{ID: "c"}, imageConfig{ref: "i", args: []string{"x"}, user: "1"})
	require.NoError(t, err)
	require.Nil(t, plain.Spec.RuntimeClassName)
	require.Nil(t, plain.Spec.HostUsers)
	require.Nil(t, mainSecurityContext(plain).SeccompProfile, "the pod's own holds: RuntimeDefault")

	none := runtime.Spec{ID: "c", Isolation: runtime.Isolation{NetworkMode: "none"}}
	require.ErrorIs(t, r.Check(t.Context(), none), runtime.ErrInvalid)
	_, err = r.buildPod(none, imageConfig{ref: "i", args: []string{"x"}, user: "1"})
	require.ErrorIs(t, err, runtime.ErrInvalid, "Create rejects it too")
	require.NoError(t, r.Check(t.Context(), runtime.Spec{}), "without a request")
}

// The kubelet's grace period is a second longer than the shim's, and the shim
// knows by which signal the kubelet may ask it to exit.
func TestStopSettings(t *testing.T) {
	for grace, want := range map[time.Duration]int64{0: 1, time.Millisecond: 2, 10 * time.Second: 11, 10 * time.Minute: 601} {
		require.Equal(t, want, stopGrace(runtime.Spec{StopGracePeriod: grace}))
	}
	require.Equal(t, []int{3}, stopSignals(runtime.Spec{StopSignal: "SIGUSR1"}, imageConfig{fromRegistry: true, stopSignal: "SIGQUIT"}))
	require.Empty(t, stopSignals(runtime.Spec{StopSignal: "SIGUSR1"}, imageConfig{fromRegistry: true}))
	require.Empty(t, stopSignals(runtime.Spec{}, imageConfig{}), "the image's own signal is passed on")
	require.Equal(t, []int{2, 3, 28, 37}, stopSignals(runtime.Spec{StopSignal: "SIGUSR1"}, imageConfig{}))
}
