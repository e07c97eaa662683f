package builtin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/hooks/lint"
)

// errNothingToJudge is the error of a guard that is not called by a gate it knows.
var errNothingToJudge = errors.New("there is nothing to judge")

func checkNone(with map[string]any) error {
	if len(with) > 0 {
		return errors.New("it has no options")
	}
	return nil
}

// guardDestructive refuses commands that destroy.
func guardDestructive(_ context.Context, _ *slog.Logger, c Call) (Result, error) {
	if c.Use == nil || len(c.Use.Args) == 0 {
		return Result{}, errNothingToJudge
	}
	if reason, found := lint.Destructive(c.Use.Args, c.Use.Environment); found {
		return Result{}, errors.New(reason)
	}
	return Result{}, nil
}

// directories returns the option allowed.
func directories(with map[string]any) ([]string, error) {
	for name := range with {
		if name != "allowed" {
			return nil, fmt.Errorf("unknown option %q: it has allowed", name)
		}
	}
	if with["allowed"] == nil {
		return nil, nil
	}
	list, ok := with["allowed"].([]any)
	if !ok || len(list) == 0 {
		return nil, errors.New("allowed is not a list of directories")
	}
	all := make([]string, len(list))
	for i, e := range list {
		if all[i], ok = e.(string); !ok || !strings.HasPrefix(all[i], "/") {
			return nil, fmt.Errorf("allowed: %v is not an absolute path", e)
		}
		all[i] = path.Clean(all[i])
	}
	return all, nil
}

func checkPaths(with map[string]any) error {
	_, err := directories(with)
	return err
}

// guardPaths refuses paths that are written as outside of the allowed directories,
// and has those that links may lead outside refused by the container. A command
// without a directory starts in that of the container, which the workload chose.
func guardPaths(_ context.Context, _ *slog.Logger, c Call) (Result, error) {
	allowed, err := directories(c.With)
	switch {
	case err != nil:
		return Result{}, err
	case c.Use == nil:
		return Result{}, errNothingToJudge
	case allowed == nil && c.Use.Workspace == "":
		return Result{}, errors.New("no directory is allowed: the workload has no workspace")
	case allowed == nil:
		allowed = []string{path.Clean(c.Use.Workspace)}
	}
	if len(c.Use.Args) > 0 {
		// Above a link, .. is another directory than it is written as.
		hasParent := slices.Contains(strings.Split(c.Use.Workdir, "/"), "..")
		if c.Use.Workdir != "" && (hasParent || !isWithin(c.Use.Workdir, allowed)) {
			return Result{}, fmt.Errorf("the working directory is not in %s", strings.Join(allowed, " or "))
		}
		return Result{}, nil
	}
	if !isWithin(c.Use.Path, allowed) {
		return Result{}, fmt.Errorf("the path is not in %s", strings.Join(allowed, " or "))
	}
	return Result{Within: allowed}, nil
}

// isWithin reports whether an absolute path is written as one in a directory.
func isWithin(name string, dirs []string) bool {
	if !strings.HasPrefix(name, "/") {
		return false
	}
	name = path.Clean(name)
	for _, dir := range dirs {
		if name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/") {
			return true
		}
	}
	return false
}
