package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// A shim without the subcommand prints its usage and exits with this code.
const (
	usage     = "usage: hostler-shim "
	exitUsage = 2
)

// ImageHooks implements runtime.Images.ImageHooks.
func (c Containers) ImageHooks(ctx context.Context, id string, points []string, fence int64) (runtime.ImageHooks, error) {
	found, err := listImageHooks(ctx, c.sessions.Get(id).Exec, points, fence)
	return found, wrap(err, "list the hooks of the image of the container %s", id)
}

// execFunc is the Exec or the WaitResult of a session.
type execFunc func(context.Context, runtime.Command) (runtime.Result, error)

// noImageHooks returns a listing without hooks, and why.
func noImageHooks(refused ...string) runtime.ImageHooks {
	return runtime.ImageHooks{Hooks: []runtime.ImageHook{}, Refused: append([]string{}, refused...)}
}

// listTimeout is how long a listing may take. The content of all hooks is read,
// perhaps with little of a processor.
const listTimeout = 5 * time.Minute

func listImageHooks(ctx context.Context, exec execFunc, points []string, fence int64) (runtime.ImageHooks, error) {
	result, err := exec(ctx, runtime.Command{
		Args: append([]string{shim.BinaryPath, shim.ListImageHooks}, points...), Workdir: "/", Timeout: listTimeout, Fence: fence,
	})
	if start, ok := errors.AsType[*runtime.StartError](err); ok && start.Reason == runtime.StartNotExecutable {
		// gVisor lets no user execute a file that the user cannot read.
		return noImageHooks("the container's kernel does not let its user execute the shim, which lists them"), nil
	}
	switch {
	case err != nil:
		return noImageHooks(), err
	// A shim that has crashed exits with the same code.
	case result.ExitCode == exitUsage && strings.HasPrefix(result.Stderr.Head, usage):
		return noImageHooks("the container's shim is of another version and cannot list them"), nil
	case result.TimedOut:
		return noImageHooks(), fmt.Errorf("it took longer than %s", listTimeout)
	case !result.OK() || result.Stdout.Truncated:
		text, _ := result.Stderr.Excerpt(maxLine)
		return noImageHooks(), fmt.Errorf("the shim exited with code %d: %s", result.ExitCode, oneLine(text))
	}
	found := noImageHooks()
	if err := json.Unmarshal([]byte(result.Stdout.String()), &found); err != nil {
		return noImageHooks(), fmt.Errorf("read what the shim printed: %w", err)
	}
	if err := checkImageHooks(found, points); err != nil {
		return noImageHooks(), err
	}
	list := noImageHooks()
	list.Hooks = append(list.Hooks, found.Hooks...)
	for _, reason := range found.Refused {
		list.Refused = append(list.Refused, oneLine(reason))
	}
	return list, nil
}

// maxLine bounds a text of the container in an error or an event, in bytes.
const maxLine = 1 << 10

// oneLine returns a text of the container as one line without control characters.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, strings.TrimSpace(text))
	return strings.ToValidUTF8(text[:min(len(text), maxLine)], "")
}

// checkImageHooks returns an error for a list that the shim does not print: a
// process of the container may have printed it. Each hook is listed once, in order.
func checkImageHooks(found runtime.ImageHooks, points []string) error {
	if len(found.Hooks) > runtime.MaxImageHooks || len(found.Refused) > runtime.MaxRefusedImageHooks+1 {
		return fmt.Errorf("the shim lists %d and %d refusals, at most %d and %d are allowed",
			len(found.Hooks), len(found.Refused), runtime.MaxImageHooks, runtime.MaxRefusedImageHooks+1)
	}
	compare := func(a, b runtime.ImageHook) int {
		return cmp.Or(
			cmp.Compare(slices.Index(points, a.Point), slices.Index(points, b.Point)),
			cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), // POINT is before POINT.d/*
			cmp.Compare(a.Path, b.Path))
	}
	for i, h := range found.Hooks {
		if !slices.Contains(points, h.Point) || !h.IsListed() || i > 0 && compare(found.Hooks[i-1], h) >= 0 {
			return errors.New("the shim lists a file that it was not asked for")
		}
	}
	return nil
}

// imageHookCommand returns the command that the shim runs for a hook of the image.
// Other commands are returned unchanged.
func imageHookCommand(cmd runtime.Command) runtime.Command {
	if cmd.Digest != "" {
		cmd.Args = append([]string{shim.BinaryPath, shim.RunImageHook, cmd.Digest}, cmd.Args...)
	}
	return cmd
}

// imageHookResult returns call, with a *runtime.StartError if the shim has not
// become the hook of the image.
func imageHookResult(cmd runtime.Command, call execFunc) execFunc {
	if cmd.Digest == "" {
		return call
	}
	return func(ctx context.Context, sent runtime.Command) (runtime.Result, error) {
		result, err := call(ctx, sent)
		if reason, refused := refusal(result); err == nil && refused {
			return runtime.Result{}, &runtime.StartError{Reason: runtime.StartFailed, Detail: oneLine(reason)}
		}
		return result, err
	}
}

// refusal returns why the shim has not become a hook of the image. A hook can end
// in the same way, and gains nothing: it has failed.
func refusal(r runtime.Result) (reason string, refused bool) {
	reason, refused = strings.CutPrefix(r.Stderr.Head, shim.ImageHookRefused)
	reason, isLine := strings.CutSuffix(reason, "\n")
	printsMore := strings.Contains(reason, "\n") || r.Stderr.Tail != "" || r.Stdout.Total > 0
	ended := r.TimedOut || r.Signal != "" || r.Exceeded != "" || r.Leaked > 0
	return reason, refused && isLine && r.ExitCode == shim.ExitRefused && !printsMore && !ended
}
