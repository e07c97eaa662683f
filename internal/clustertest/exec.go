package clustertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// ExecProtocol makes what runs commands in one of the API server's protocols.
type ExecProtocol func(config *rest.Config, target *url.URL) (remotecommand.Executor, error)

// ExecWebSocket is the protocol of kubectl.
func ExecWebSocket(config *rest.Config, target *url.URL) (remotecommand.Executor, error) {
	return remotecommand.NewWebSocketExecutor(config, http.MethodGet, target.String())
}

// ExecSPDY is the protocol that kubectl falls back to.
func ExecSPDY(config *rest.Config, target *url.URL) (remotecommand.Executor, error) {
	return remotecommand.NewSPDYExecutor(config, http.MethodPost, target)
}

// Exec runs a command in a container of a pod as kubectl exec does, and returns when
// it has ended. Its output is read and dropped.
func (c *Cluster) Exec(ctx context.Context, protocol ExecProtocol, namespace, pod, container string, command ...string) error {
	query := url.Values{"container": {container}, "stdout": {"true"}, "stderr": {"true"}, "command": command}
	target, err := url.Parse(fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s/exec?%s", c.Config.Host, namespace, pod, query.Encode()))
	if err != nil {
		return fmt.Errorf("run a command in %s: %w", pod, err)
	}
	executor, err := protocol(c.Config, target)
	if err == nil {
		err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard})
	}
	if err != nil {
		return fmt.Errorf("run a command in %s: %w", pod, err)
	}
	return nil
}
