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

// The labels on what we create, by which it is selected. The names are those of
// the Docker backend, so that operators learn one set.
const (
	labelManaged   = "hostler.managed"
	labelInstance  = "hostler.instance"
	labelContainer = "hostler.container"
	labelWorkload  = "hostler.workload"
	labelRevision  = "hostler.revision"
)

// The annotations: what a later Hostler must know of a container.
const (
	annotationUser  = "hostler.user"  // who owns the container's files
	annotationPorts = "hostler.ports" // decimal, separated by commas
	// annotationProtocol is the version that the container's shim supports.
	annotationProtocol = "hostler.protocol"
	// annotationRestarted counts the exits after which the container was
	// restarted: see containerHistory.
	annotationRestarted = "hostler.revived"
)

// podName returns the name of the pod of an id.
func podName(id string) string { return "hostler-" + id }

// checkID rejects an id that is not valid in a pod's name. The server would
// too, with an error about pods.
func checkID(id string) error {
	if problems := validation.IsDNS1123Label(podName(id)); id == "" || len(problems) > 0 {
		return fmt.Errorf("%w: the id %q is not valid in a pod's name: %s",
			runtime.ErrInvalid, id, strings.Join(problems, "; "))
	}
	return nil
}

// instanceSelector selects what has this instance's labels.
func (r *Runtime) instanceSelector() string {
	return labelManaged + "=true," + labelInstance + "=" + r.instance + "," + labelContainer
}

// errForeign reports a pod of the name that ours would have, created by another
// owner. Except when we create ours, it does not count.
var errForeign = fmt.Errorf("%w: the pod of its name belongs to another owner", runtime.ErrNotFound)

// lookup returns a container's pod by its name and checks that it is ours. It
// also finds one of a newer server.
func (r *Runtime) lookup(ctx context.Context, id string) (*corev1.Pod, error) {
	if checkID(id) != nil {
		return nil, fmt.Errorf("%w: the id %q is invalid", runtime.ErrNotFound, id)
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

// lookupRemovable is lookup for operations that destroy the container: for one
// of a newer server it returns runtime.ErrNewer.
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
