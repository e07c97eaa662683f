package docker

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/backend"
)

// Status is runtime.Observer.Status.
func (r *Runtime) Status(ctx context.Context, id string) (runtime.Status, error) {
	c, err := r.lookup(ctx, id)
	if err != nil {
		return runtime.Status{}, fmt.Errorf("inspect the container %s: %w", id, err)
	}
	s := statusFromInspect(c)
	s.Node = r.engineName(ctx)
	return s, nil
}

// engineName returns the host name of the engine's machine, or "" while the engine
// does not answer.
func (r *Runtime) engineName(ctx context.Context) string {
	if name := r.name.Load(); name != nil {
		return *name
	}
	info, err := r.api.Info(ctx)
	if err != nil {
		return "" // the next Status asks again
	}
	r.name.Store(&info.Name)
	return info.Name
}

// List is runtime.Observer.List. It does not inspect containers, because the engine
// responds to that only when no other call holds the lock of the container, and
// one container must not block the list.
func (r *Runtime) List(ctx context.Context) ([]runtime.Status, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	found, err := r.api.ContainerList(ctx, container.ListOptions{All: true, Filters: r.instanceFilter(labelContainer)})
	if err != nil {
		return nil, fmt.Errorf("list the containers: %w", r.apiError(ctx, err))
	}
	all := make([]runtime.Status, 0, len(found))
	for _, c := range found {
		// One with our labels and another name is another owner's copy.
		if slices.Contains(c.Names, "/"+containerName(c.Labels[labelContainer])) {
			all = append(all, statusFromSummary(c))
		}
	}
	return all, nil
}

// states maps the engine's states to those of the contract. A container that is
// paused still has its main process.
var states = map[container.ContainerState]runtime.State{
	container.StateCreated:    runtime.Created,
	container.StateRunning:    runtime.Running,
	container.StatePaused:     runtime.Running,
	container.StateRestarting: runtime.Running,
	container.StateRemoving:   runtime.Exited,
	container.StateExited:     runtime.Exited,
	container.StateDead:       runtime.Exited,
}

func statusFromInspect(c container.InspectResponse) runtime.Status {
	s := statusFromLabels(c.Config.Labels)
	s.State = states[c.State.Status]
	if s.State == runtime.Exited {
		s.ExitCode, s.OOMKilled = c.State.ExitCode, c.State.OOMKilled
	}
	if c.HostConfig != nil && c.NetworkSettings != nil {
		if n := c.NetworkSettings.Networks[c.HostConfig.NetworkMode.NetworkName()]; n != nil {
			s.Endpoint.Host = n.IPAddress
		}
	}
	return s
}

func statusFromSummary(c container.Summary) runtime.Status {
	s := statusFromLabels(c.Labels)
	s.State = states[c.State]
	if s.State == runtime.Exited {
		s.ExitCode = exitCodeFromText(c.Status)
	}
	if c.NetworkSettings != nil {
		if n := c.NetworkSettings.Networks[c.HostConfig.NetworkMode]; n != nil {
			s.Endpoint.Host = n.IPAddress
		}
	}
	return s
}

// exitCodeFromText returns the exit code in the engine's text of a container's
// status, such as "Exited (137) 5 minutes ago", or 0 if there is none.
func exitCodeFromText(text string) int {
	code := 0
	_, _ = fmt.Sscanf(text, "Exited (%d)", &code)
	return code
}

// statusFromLabels returns the part of a Status that the labels contain.
func statusFromLabels(labels map[string]string) runtime.Status {
	version, _ := shim.Protocols().Parse(labels[labelProtocol]) // 0 if it is not a version
	return runtime.Status{
		Protocol: version,
		ID:       labels[labelContainer],
		Workload: labels[labelWorkload],
		Revision: labels[labelRevision],
		Endpoint: runtime.Endpoint{Ports: backend.ParsePorts(labels[labelPorts])},
	}
}

// logsTimeout is how long the engine may take to send a log.
const logsTimeout = time.Minute

// errLogsTimeout is the cause when logsTimeout has passed.
var errLogsTimeout = fmt.Errorf("%w: the log is not read after %s", runtime.ErrUnavailable, logsTimeout)

// copyLog copies the end of a log.
func (r *Runtime) copyLog(ctx context.Context, id string, part backend.LogPart, to io.Writer) error {
	c, err := r.lookup(ctx, id)
	if err != nil || part.Lines == 0 {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, logsTimeout, errLogsTimeout)
	defer cancel()
	options := container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: strconv.FormatInt(part.Lines, 10)}
	if !part.Since.IsZero() {
		options.Since = part.Since.Format(time.RFC3339Nano)
	}
	log, err := r.api.ContainerLogs(ctx, c.ID, options)
	if err != nil {
		return r.apiError(ctx, err)
	}
	defer log.Close()
	_, err = stdcopy.StdCopy(to, to, log)
	return r.apiError(ctx, err)
}
