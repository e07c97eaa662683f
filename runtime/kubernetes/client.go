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

// scheme knows the few kinds that we speak of. The one that comes with the
// client knows all there are and makes the program three times as large.
var scheme = newScheme()

// parameters turns options into a request's query.
var parameters = k8sruntime.NewParameterCodec(scheme)

func newScheme() *k8sruntime.Scheme {
	s := k8sruntime.NewScheme()
	s.AddKnownTypes(corev1.SchemeGroupVersion,
		&corev1.Pod{}, &corev1.PodList{}, &corev1.PodExecOptions{}, &corev1.PodLogOptions{})
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	return s
}

// loadConfig finds the cluster and the namespace.
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
	config.WarningHandler = rest.NoWarnings{} // they are meant for people at a terminal
	// The server is fair to its clients by itself; the client's own limit of
	// five requests a second would make a pool that fills up wait for nothing.
	config.QPS = -1
	return config, namespace, nil
}

// newClient makes the client for all but programs in containers.
func newClient(config *rest.Config) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return networkErrTransport{next} })
	return rest.RESTClientFor(config)
}

// networkErrTransport tells that a server does not answer in an error of ours. Those of
// the network the client would take for a connection that has only become old:
// it would try again ten times, a second apart, and make a watch that ended at
// once of it, for ever. Our callers know better when to try again.
//
// A server that answers that it has failed is asked again, a few times: a fault
// of a moment must not cost a container that is being made. Whether what was
// asked for is done all the same makes no difference: names are taken once, and
// a change is of one very pod.
type networkErrTransport struct{ http.RoundTripper }

// serverErrorBackoff are the pauses after which a server that has failed is asked again.
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

// isServerError says whether a server has failed and does not say when to ask again:
// where it does, the client obeys.
func isServerError(answer *http.Response) bool {
	return answer.StatusCode >= http.StatusInternalServerError && answer.Header.Get("Retry-After") == ""
}

// WrappedRoundTripper is how the client finds what it wants to know of the
// transport below.
func (p networkErrTransport) WrappedRoundTripper() http.RoundTripper { return p.RoundTripper }

// networkError is an error of the network, which must not be unwrapped.
type networkError struct{ err error }

func (n *networkError) Error() string { return n.err.Error() }

func newPods(client rest.Interface, namespace string) *gentype.ClientWithList[*corev1.Pod, *corev1.PodList] {
	return gentype.NewClientWithList("pods", client, parameters, namespace,
		func() *corev1.Pod { return &corev1.Pod{} },
		func() *corev1.PodList { return &corev1.PodList{} },
		gentype.PrefersProtobuf[*corev1.Pod]())
}

// clientLog is what the client's libraries write to instead of the process's
// standard error: all that matters of it reaches us as an error as well.
func clientLog(log *slog.Logger) klog.Logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return logr.FromSlogHandler(debugOnlyHandler{log.Handler()})
}

// debugOnlyHandler makes every record one for debugging.
type debugOnlyHandler struct{ slog.Handler }

func (l debugOnlyHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && l.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle asks once more: what the client reports as an error comes unasked.
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

// execURL is where a program is started in a pod's container.
func (r *Runtime) execURL(pod string, args []string) *url.URL {
	return r.client.Post().Namespace(r.namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: mainContainer, Command: args, Stdin: true, Stdout: true, Stderr: true,
		}, parameters).URL()
}
