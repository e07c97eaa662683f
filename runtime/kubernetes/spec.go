package kubernetes

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/backend"
)

// The containers of a pod.
const (
	mainContainer    = "workload"
	installContainer = "hostler-shim"
)

// startGate prevents a pod from being scheduled until Start removes it: Create
// starts nothing.
const startGate = "hostler/start"

// The defaults for what a spec leaves open, and the requests, which are the same
// for every spec: small, so that a warm pool, which is mostly idle, packs well.
// The kubelet limits the number of processes.
const (
	defaultMemory = 512 << 20
	defaultCPUs   = 1

	requestedMemory = 64 << 20
	requestedCPUs   = 0.025
)

// stopMargin is how many seconds longer than the workload's grace period the
// kubelet waits before it kills a container that it has asked to exit, because
// the clock is the shim's. With 0 the pod would disappear from the API while its
// processes still run.
const stopMargin = 1

// stopGrace returns that time in seconds.
func stopGrace(spec runtime.Spec) int64 {
	return int64(math.Ceil(max(0, spec.StopGracePeriod).Seconds())) + stopMargin
}

// otherStopSignals are the stop signals that images name instead of SIGTERM: the
// kubelet sends the image's, which may be unknown to us.
var otherStopSignals = []string{"SIGINT", "SIGQUIT", "SIGWINCH", "SIGRTMIN+3"}

// stopSignals returns the signals by which the kubelet may ask the shim to stop.
func stopSignals(spec runtime.Spec, img imageConfig) []int {
	names := []string{img.stopSignal}
	if !img.fromRegistry && spec.StopSignal != "" {
		// If the workload names none, the image's own is passed on unchanged.
		names = otherStopSignals
	}
	var numbers []int
	for _, name := range names {
		if n, err := runtime.ParseSignal(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// buildPod returns the pod of a container.
func (r *Runtime) buildPod(spec runtime.Spec, img imageConfig) (*corev1.Pod, error) {
	as, err := r.accountFor(spec, img.user)
	if err != nil {
		return nil, err
	}
	img.user = as.shimUser(img.user)
	env, err := r.shimEnv(spec, img)
	if err != nil {
		return nil, fmt.Errorf("%w: neither the workload nor its image %s has a command", runtime.ErrInvalid, spec.Image)
	}
	all := emptyDirs(spec)
	installVolumes, install := installArgs(all, as)
	no, grace := false, stopGrace(spec)
	p := &corev1.Pod{
		ObjectMeta: r.podMeta(spec, img.user),
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: startGate}},
			// The kubelet starts an exited container again in the same pod, with
			// its volumes. The shim then waits for a start: see
			// shim.Config.StartedMarker.
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
			ShareProcessNamespace:         &no,
			SecurityContext: &corev1.PodSecurityContext{
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: volumes(all),
			InitContainers: []corev1.Container{{
				Name: installContainer, Image: r.shimImage, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: install, VolumeMounts: installVolumes,
				SecurityContext: as.securityContext(true, "CHOWN", "FOWNER"),
				Resources:       resources(requestedCPUs, requestedMemory, defaultCPUs, requestedMemory),
				// Its last output explains why it failed.
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			}},
			Containers: []corev1.Container{{
				Name: mainContainer, Image: img.ref, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{shim.BinaryPath, "init"}, Env: []corev1.EnvVar{env}, VolumeMounts: mounts(spec, all, as),
				SecurityContext: as.securityContext(spec.ReadOnly, capabilities...),
				Resources:       resourceLimits(spec.Limits),
				Ports:           ports(spec.Ports),
			}},
		},
	}
	setResolvers(&p.Spec, spec.DNS)
	return p, applyIsolation(&p.Spec, spec.Isolation)
}

// podMeta returns the name, labels and annotations of a container's pod.
func (r *Runtime) podMeta(spec runtime.Spec, user string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: podName(spec.ID), Namespace: r.namespace,
		Labels: map[string]string{
			"app.kubernetes.io/managed-by": "hostler",
			labelManaged:                   "true",
			labelInstance:                  r.instance,
			labelContainer:                 spec.ID,
			labelWorkload:                  spec.Workload,
			labelRevision:                  spec.Revision,
		},
		Annotations: map[string]string{
			annotationUser: user, annotationPorts: backend.FormatPorts(spec.Ports), annotationProtocol: shim.Protocols().Format(),
			// A pod may hold the only copy of a tenant's state. An autoscaler
			// must not end it to save nodes.
			"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
			"karpenter.sh/do-not-disrupt":                    "true",
		},
	}
}

// shimEnv returns the variable with the shim's configuration: what an engine
// would have done. Environment and, unless the workload names one, the working
// directory are the image's, which the kubelet sets for process 1.
func (r *Runtime) shimEnv(spec runtime.Spec, img imageConfig) (corev1.EnvVar, error) {
	c := shim.Config{
		Args:          img.args,
		Environment:   spec.Environment,
		User:          img.user,
		Workdir:       cmp.Or(spec.Workdir, "."),
		Key:           shim.DeriveKey(r.secret, spec.ID),
		StartedMarker: shim.RunDir + "/began",
		StopSignal:    runtime.StopSignal(spec.StopSignal, img.stopSignal),
		StopGrace:     spec.StopGracePeriod,
		StaysForState: spec.KeepsState,
		StopSignals:   stopSignals(spec, img),
		FenceFile:     shim.RunDir + "/" + shim.FenceFileName,
	}
	for _, v := range spec.Volumes {
		if !v.ReadOnly { // the shim could not change the owner of a read-only one
			c.Volumes = append(c.Volumes, v.Target)
		}
	}
	entry, err := c.Env()
	name, value, _ := strings.Cut(entry, "=")
	// The kubelet replaces $(NAME), and $$ by $.
	return corev1.EnvVar{Name: name, Value: strings.ReplaceAll(value, "$", "$$")}, err
}

func resourceLimits(l runtime.Limits) corev1.ResourceRequirements {
	cpus, memory := l.CPUs, l.Memory
	if cpus <= 0 {
		cpus = defaultCPUs
	}
	if memory <= 0 {
		memory = defaultMemory
	}
	return resources(min(cpus, requestedCPUs), min(memory, requestedMemory), cpus, memory)
}

func resources(cpus float64, memory int64, maxCPUs float64, maxMemory int64) corev1.ResourceRequirements {
	list := func(cpus float64, memory int64) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(max(1, int64(cpus*1000)), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		}
	}
	return corev1.ResourceRequirements{Requests: list(cpus, memory), Limits: list(maxCPUs, maxMemory)}
}

// setResolvers sets the resolvers, if the workload names some.
func setResolvers(p *corev1.PodSpec, servers []string) {
	if len(servers) == 0 {
		return
	}
	p.DNSPolicy = corev1.DNSNone
	p.DNSConfig = &corev1.PodDNSConfig{Nameservers: servers}
}

func ports(numbers []int) []corev1.ContainerPort {
	all := make([]corev1.ContainerPort, 0, len(numbers))
	for _, n := range numbers {
		all = append(all, corev1.ContainerPort{ContainerPort: int32(n), Protocol: corev1.ProtocolTCP}) //nolint:gosec // a port
	}
	return all
}
