// Package kubernetes runs containers as pods of a Kubernetes cluster, 1.30 or
// newer: one pod a container, in one namespace, made and watched through the
// cluster's API. It needs no agent on the nodes and no rights beyond that
// namespace.
//
// Process 1 of every pod's container is Hostler's shim, which an init container
// puts there from Hostler's own image. The shim starts the workload's command
// and, over one long-lived exec session per container, everything else that is
// run there: once the session is open, a command costs the API server nothing.
// The package promises the contract of package runtime and leaves to others
// which containers there should be.
//
// What it makes is labelled with the instance that made it. Nothing without
// that label is ever listed, changed or removed.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

var _ runtime.Runtime = (*Runtime)(nil)

// Options say which cluster, on whose behalf and with which shim.
type Options struct {
	// Instance tells this Hostler's containers from another's in the same
	// namespace. Two that share it see each other's containers as their own.
	Instance string
	// Secret is what the tokens of the sessions are derived from. A server that
	// starts again needs the same to take up its containers.
	Secret []byte
	// ShimImage is an image, reachable by the nodes, with hostler-shim in its
	// PATH: Hostler's own.
	ShimImage string
	// Kubeconfig is a file that says how to reach the cluster. Empty means the
	// environment's: KUBECONFIG, or ~/.kube/config, or the service account when
	// Hostler itself runs in a pod.
	Kubeconfig string
	// Namespace is where the pods are. Empty means that of the kubeconfig's
	// context or of the pod that Hostler runs in.
	Namespace string
	// NonRoot runs every container wholly as its workload's user, for clusters
	// that admit no root, even without power over anything. Every workload then
	// needs a numeric user, and commands run as no other.
	NonRoot bool
	// Log gets what the cluster's client has to say besides its errors, for
	// debugging. Nil means nobody.
	Log *slog.Logger
	// UnresponsiveTimeout and MayChange are those of shim.Options.
	UnresponsiveTimeout time.Duration
	MayChange           func() error
}

// Runtime is one namespace of a cluster. It is made by New.
type Runtime struct {
	config    *rest.Config
	client    *rest.RESTClient
	pods      *gentype.ClientWithList[*corev1.Pod, *corev1.PodList]
	namespace string
	instance  string
	secret    []byte
	shimImage string
	nonRoot   bool
	log       klog.Logger
	images    images
	sessions  *shim.Sessions // by our id
}

// New prepares to talk to a cluster. It need not be there yet: calls are
// runtime.ErrUnavailable until it is.
func New(o Options) (*Runtime, error) {
	if o.Instance == "" || len(o.Secret) == 0 {
		return nil, errors.New("connect to kubernetes: an instance and a secret are needed")
	}
	if o.ShimImage == "" {
		return nil, errors.New("connect to kubernetes: an image that brings the shim to the nodes is needed")
	}
	config, namespace, err := loadConfig(o.Kubeconfig, o.Namespace)
	if err != nil {
		return nil, fmt.Errorf("connect to kubernetes: %w", err)
	}
	client, err := newClient(config)
	if err != nil {
		return nil, fmt.Errorf("connect to kubernetes: %w", err)
	}
	r := &Runtime{
		config:    config,
		client:    client,
		pods:      newPods(client, namespace),
		namespace: namespace,
		instance:  o.Instance,
		secret:    o.Secret,
		shimImage: o.ShimImage,
		nonRoot:   o.NonRoot,
		log:       clientLog(o.Log),
	}
	r.sessions = shim.NewSessions(shim.Options{
		Secret: o.Secret, Dial: r.dial, CheckRunning: r.checkRunning,
		UnresponsiveTimeout: o.UnresponsiveTimeout, MayChange: o.MayChange,
	})
	return r, nil
}

// Ping asks whether the cluster answers and lets us at our pods;
// runtime.ErrUnavailable when not.
func (r *Runtime) Ping(ctx context.Context) error {
	if _, err := r.pods.List(ctx, metav1.ListOptions{LabelSelector: r.instanceSelector(), Limit: 1}); err != nil {
		return fmt.Errorf("reach kubernetes: %w", r.apiError(ctx, err))
	}
	return nil
}

// Close ends the sessions. Containers run on.
func (r *Runtime) Close() error {
	err := r.sessions.Close()
	r.client.Client.CloseIdleConnections()
	return err
}
