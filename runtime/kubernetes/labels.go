package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// The labels on what we make, by which it is selected. The names are those of
// the Docker backend, so that an operator learns them once.
const (
	labelManaged   = "hostler.managed"
	labelInstance  = "hostler.instance"
	labelContainer = "hostler.container"
	labelWorkload  = "hostler.workload"
	labelRevision  = "hostler.revision"
)

// The annotations: what a later Hostler must know of a container.
const (
	annotationUser  = "hostler.user"  // whom the container's files belong to
	annotationPorts = "hostler.ports" // decimal, with commas between
	// annotationProtocol is the version that the container's shim speaks.
	annotationProtocol = "hostler.protocol"
	// annotationRestarted is how many of its deaths the container was brought back
	// from: see lived.
	annotationRestarted = "hostler.revived"
)

// podName is the name of the pod of an id.
func podName(id string) string { return "hostler-" + id }

// checkID refuses an id that no pod can be named after. The server would too,
// in words that speak of pods.
func checkID(id string) error {
	if problems := validation.IsDNS1123Label(podName(id)); id == "" || len(problems) > 0 {
		return fmt.Errorf("%w: no pod can be named after the id %q: %s",
			runtime.ErrInvalid, id, strings.Join(problems, "; "))
	}
	return nil
}

// instanceSelector selects what bears this instance's labels.
func (r *Runtime) instanceSelector() string {
	return labelManaged + "=true," + labelInstance + "=" + r.instance + "," + labelContainer
}

// errForeign is a pod by the name that ours would have, made by somebody else:
// for all purposes but that of making ours, there is none.
var errForeign = fmt.Errorf("%w: one by its name belongs to somebody else", runtime.ErrNotFound)

// lookup looks a container's pod up by its name and makes sure that it is ours, be
// it of a newer server.
func (r *Runtime) lookup(ctx context.Context, id string) (*corev1.Pod, error) {
	if checkID(id) != nil {
		return nil, fmt.Errorf("%w: none can have the id %q", runtime.ErrNotFound, id)
	}
	pod, err := r.pods.Get(ctx, podName(id), metav1.GetOptions{})
	if err != nil {
		return nil, r.apiError(ctx, err)
	}
	if !r.isOurs(pod) || pod.Labels[labelContainer] != id {
		return nil, errForeign
	}
	return pod, nil
}

// lookupRemovable is find for what ends the container: one of a newer server is
// runtime.ErrNewer.
func (r *Runtime) lookupRemovable(ctx context.Context, id string) (*corev1.Pod, error) {
	pod, err := r.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	if _, err := shim.Protocols().Parse(pod.Annotations[annotationProtocol]); errors.Is(err, runtime.ErrNewer) {
		return nil, err
	}
	return pod, nil
}

func (r *Runtime) isOurs(pod *corev1.Pod) bool {
	return pod.Labels[labelManaged] == "true" && pod.Labels[labelInstance] == r.instance
}
