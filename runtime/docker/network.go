package docker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"github.com/hostler/hostler/runtime"
)

// defaultNetwork is the network of containers whose workload names none. Tenants
// on it reach the outside and are reachable from the engine's machine, but they
// do not reach each other.
const defaultNetwork = "hostler"

// interContainerOpt is the bridge's option that isolates its containers.
const interContainerOpt = "com.docker.network.bridge.enable_icc"

// networks returns the names of the networks that the container joins, all of
// which exist. The first decides the endpoint's address.
func (r *Runtime) networks(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return []string{defaultNetwork}, r.ensureNetwork(ctx)
	}
	for _, name := range names {
		if name == "host" || strings.Contains(name, ":") {
			return nil, fmt.Errorf("%w: the network %q would share that of another owner", runtime.ErrInvalid, name)
		}
		_, err := r.api.NetworkInspect(ctx, name, network.InspectOptions{})
		if cerrdefs.IsNotFound(err) {
			return nil, fmt.Errorf("%w: there is no network %q; create it with `docker network create %s`",
				runtime.ErrInvalid, name, name)
		}
		if err != nil {
			return nil, fmt.Errorf("inspect the network %s: %w", name, r.apiError(ctx, err))
		}
	}
	return names, nil
}

// ensureNetwork creates our own network if it does not exist.
func (r *Runtime) ensureNetwork(ctx context.Context) error {
	r.networkMu.Lock()
	defer r.networkMu.Unlock()
	found, err := r.listDefaultNetworks(ctx)
	if err == nil && len(found) == 0 {
		err = r.createNetwork(ctx)
		if err == nil {
			found, err = r.listDefaultNetworks(ctx)
		}
	}
	if err != nil {
		return err
	}
	if len(found) > 1 {
		found = r.trimSurplus(ctx, found)
	}
	if len(found) == 0 {
		return fmt.Errorf("%w: the network %s was removed again", runtime.ErrUnavailable, defaultNetwork)
	}
	return checkNetwork(found[0])
}

// listDefaultNetworks returns the networks of our network's name, the oldest
// first. An engine creates two for two concurrent requests.
func (r *Runtime) listDefaultNetworks(ctx context.Context) ([]network.Summary, error) {
	found, err := r.api.NetworkList(ctx, network.ListOptions{
		Filters: filters.NewArgs(filters.Arg("name", defaultNetwork))})
	if err != nil {
		return nil, fmt.Errorf("inspect the network %s: %w", defaultNetwork, r.apiError(ctx, err))
	}
	// The filter also matches a part of the name.
	found = slices.DeleteFunc(found, func(n network.Summary) bool { return n.Name != defaultNetwork })
	slices.SortFunc(found, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return found, nil
}

func (r *Runtime) createNetwork(ctx context.Context) error {
	_, err := r.api.NetworkCreate(ctx, defaultNetwork, network.CreateOptions{
		Driver:  "bridge",
		Options: map[string]string{interContainerOpt: "false"},
		Labels:  r.labels(nil),
	})
	if err != nil && !cerrdefs.IsConflict(err) { // a conflict: another Hostler created it
		return fmt.Errorf("create the network %s: %w", defaultNetwork, r.createError(ctx, err))
	}
	return nil
}

// trimSurplus removes networks until there is one of the name: with two the
// engine starts no container on either. It begins with the newest. The engine
// refuses to remove one that has containers; then an older one without any can
// be removed.
func (r *Runtime) trimSurplus(ctx context.Context, found []network.Summary) []network.Summary {
	for i := len(found) - 1; i >= 0 && len(found) > 1; i-- {
		if checkNetwork(found[i]) != nil {
			continue
		}
		if err := r.api.NetworkRemove(ctx, found[i].ID); err == nil || cerrdefs.IsNotFound(err) {
			found = slices.Delete(found, i, i+1)
		}
	}
	return found
}

// checkNetwork rejects a network that would let tenants reach each other.
func checkNetwork(found network.Summary) error {
	if found.Labels[labelManaged] != "true" || found.Options[interContainerOpt] != "false" {
		return fmt.Errorf("%w: there is a network %q that Hostler did not create; "+
			"name a network in the workload, or remove that one", runtime.ErrInvalid, defaultNetwork)
	}
	return nil
}

// isAmbiguousNetwork reports whether the engine has several networks of a name.
// It has no code for that.
func isAmbiguousNetwork(err error) bool {
	return err != nil && strings.Contains(err.Error(), "is ambiguous")
}
