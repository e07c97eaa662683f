// Package kubernetes runs containers as pods of a Kubernetes cluster, 1.30 or
// newer: one pod per container, in one namespace, created and watched through
// the cluster's API. It needs no agent on the nodes and no permissions outside
// that namespace.
//
// Process 1 of every pod's container is Hostler's shim, which an init container
// copies there from Hostler's own image. The shim starts the workload's command
// and, over one long-lived exec session per container, everything else that runs
// there: once the session is open, a command costs the API server nothing. The
// package promises the contract of package runtime and leaves to others which
// containers exist.
//
// What it creates is labeled with the instance that created it. It never lists,
// changes or removes anything without that label.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/backend"
)

var _ runtime.Runtime = (*Runtime)(nil)

// Options name the cluster, the instance and the shim.
type Options struct {
	// Instance distinguishes this Hostler's containers from another's in the
	// same namespace. Two that share it treat each other's containers as their
	// own.
	Instance string
	// Secret is what the session tokens are derived from. A restarted server
	// needs the same secret to resume its containers.
	Secret []byte
	// ShimImage is an image, reachable by the nodes, with hostler-shim in its
	// PATH: Hostler's own.
	ShimImage string
	// Kubeconfig is a file that describes the cluster. Empty means the
	// environment's: KUBECONFIG, or ~/.kube/config, or the service account when
	// Hostler itself runs in a pod.
	Kubeconfig string
	// Namespace is that of the pods. Empty means that of the kubeconfig's context
	// or of the pod that Hostler runs in.
	Namespace string
	// NonRoot runs every container entirely as its workload's user, for clusters
	// that admit no root, not even without capabilities. Every workload then
	// needs a numeric user, and commands run as no other.
	NonRoot bool
	// Log receives what the cluster's client logs in addition to its errors, for
	// debugging. Nil discards it.
	Log *slog.Logger
	// UnresponsiveTimeout and MayChange are those of shim.Options.
	UnresponsiveTimeout time.Duration
	MayChange           func() error
}

// Runtime is one namespace of a cluster. New creates it.
type Runtime struct {
	backend.Containers
	sessions  *shim.Sessions // by Hostler's id
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
	// unrecorded has, by Hostler's id, the number of exits of the containers whose
	// restart after the last of them may not be recorded.
	unrecorded sync.Map
}

// New prepares a client of a cluster. The cluster need not be available yet:
// until it is, calls return runtime.ErrUnavailable.
func New(o Options) (*Runtime, error) {
	if o.Instance == "" || len(o.Secret) == 0 {
		return nil, errors.New("connect to kubernetes: an instance and a secret are required")
	}
	if o.ShimImage == "" {
		return nil, errors.New("connect to kubernetes: an image that brings the shim to the nodes is required")
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
	r.setSessions(shim.NewSessions(shim.Options{
		Secret: o.Secret, Dial: r.dial, CheckRunning: r.checkRunning,
		UnresponsiveTimeout: o.UnresponsiveTimeout, MayChange: o.MayChange,
	}))
	return r, nil
}

func (r *Runtime) setSessions(sessions *shim.Sessions) {
	r.sessions = sessions
	r.Containers = backend.New(sessions, backend.Options{
		Secret: r.secret, Resume: r.resume, Restarted: r.restarted, Status: r.Status, Mounts: r.volumeMounts, CopyLog: r.copyLog,
	})
}

// Ping returns nil if the cluster responds and grants access to our pods, else
// runtime.ErrUnavailable.
func (r *Runtime) Ping(ctx context.Context) error {
	if _, err := r.pods.List(ctx, metav1.ListOptions{LabelSelector: r.instanceSelector(), Limit: 1}); err != nil {
		return fmt.Errorf("reach kubernetes: %w", r.apiError(ctx, err))
	}
	return nil
}

// Close ends the sessions. Containers keep running.
func (r *Runtime) Close() error {
	err := r.sessions.Close()
	r.client.Client.CloseIdleConnections()
	return err
}
