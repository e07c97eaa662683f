package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// scheme has the few kinds that we use. The client's own has all kinds and makes
// the program three times as large.
var scheme = newScheme()

// parameters converts options into a request's query.
var parameters = k8sruntime.NewParameterCodec(scheme)

func newScheme() *k8sruntime.Scheme {
	s := k8sruntime.NewScheme()
	s.AddKnownTypes(corev1.SchemeGroupVersion,
		&corev1.Pod{}, &corev1.PodList{}, &corev1.PodExecOptions{}, &corev1.PodLogOptions{})
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	return s
}

// loadConfig returns the configuration of the cluster, and the namespace.
func loadConfig(path, namespace string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("find the cluster: %w; name a kubeconfig, or run in a pod with a service account", err)
	}
	if namespace == "" {
		if namespace, _, err = loaded.Namespace(); err != nil {
			return nil, "", fmt.Errorf("find the namespace: %w", err)
		}
	}
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = k8sruntime.ContentTypeProtobuf
	config.AcceptContentTypes = k8sruntime.ContentTypeProtobuf + "," + k8sruntime.ContentTypeJSON
	config.UserAgent = "hostler"
	config.WarningHandler = rest.NoWarnings{} // they are meant for users of a terminal
	// The server limits its clients itself. The client's own limit of five
	// requests a second would only delay a pool that is being filled.
	config.QPS = -1
	return config, namespace, nil
}

// newClient creates the client for everything except programs in containers.
func newClient(config *rest.Config) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return networkErrTransport{next} })
	return rest.RESTClientFor(config)
}

// networkErrTransport returns network errors as an error of ours. The client
// would take those of the network for a stale connection: it would retry ten
// times, a second apart, and treat it as a watch that ended at once,
// indefinitely. Our callers decide better when to retry.
//
// A server that responds with an internal error is retried a few times: a brief
// error must not cost a container that is being created. Whether the failed
// request had an effect does not matter: names are taken once, and a change
// names the identity of its pod.
type networkErrTransport struct{ http.RoundTripper }

// serverErrorBackoff are the delays before the retries after a server error.
var serverErrorBackoff = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}

func (p networkErrTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	for attempt := 0; ; attempt++ {
		answer, err := p.RoundTripper.RoundTrip(request)
		if err != nil && ctx.Err() == nil {
			err = &networkError{err}
		}
		if err != nil || attempt == len(serverErrorBackoff) || !isServerError(answer) || request.Body != nil && request.GetBody == nil {
			return answer, err
		}
		answer.Body.Close()
		select {
		case <-time.After(serverErrorBackoff[attempt]):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		request = request.Clone(ctx)
		if request.GetBody != nil {
			if request.Body, err = request.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// isServerError reports whether a server has failed and does not specify when to
// retry: if it does, the client obeys.
func isServerError(answer *http.Response) bool {
	return answer.StatusCode >= http.StatusInternalServerError && answer.Header.Get("Retry-After") == ""
}

// WrappedRoundTripper returns the transport below, which the client inspects.
func (p networkErrTransport) WrappedRoundTripper() http.RoundTripper { return p.RoundTripper }

// networkError is a network error that must not be unwrapped.
type networkError struct{ err error }

func (n *networkError) Error() string { return n.err.Error() }

func newPods(client rest.Interface, namespace string) *gentype.ClientWithList[*corev1.Pod, *corev1.PodList] {
	return gentype.NewClientWithList("pods", client, parameters, namespace,
		func() *corev1.Pod { return &corev1.Pod{} },
		func() *corev1.PodList { return &corev1.PodList{} },
		gentype.PrefersProtobuf[*corev1.Pod]())
}

// clientLog is the log of the client's libraries, instead of the process's
// standard error: everything relevant is returned as an error too.
func clientLog(log *slog.Logger) klog.Logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return logr.FromSlogHandler(debugOnlyHandler{log.Handler()})
}

// debugOnlyHandler lowers every record to the debug level.
type debugOnlyHandler struct{ slog.Handler }

func (l debugOnlyHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && l.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle checks the level again: the client logs errors without checking it.
func (l debugOnlyHandler) Handle(ctx context.Context, record slog.Record) error {
	if !l.Enabled(ctx, record.Level) {
		return nil
	}
	record.Level = slog.LevelDebug
	return l.Handler.Handle(ctx, record)
}

func (l debugOnlyHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugOnlyHandler{l.Handler.WithAttrs(attrs)}
}
func (l debugOnlyHandler) WithGroup(name string) slog.Handler {
	return debugOnlyHandler{l.Handler.WithGroup(name)}
}

// execURL returns the URL that starts a program in a pod's container.
func (r *Runtime) execURL(pod string, args []string) *url.URL {
	return r.client.Post().Namespace(r.namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: mainContainer, Command: args, Stdin: true, Stdout: true, Stderr: true,
		}, parameters).URL()
}
