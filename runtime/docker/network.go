package docker

import (
	"context"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/hostler/hostler/runtime"
)

// ownNetwork is where containers go whose workload names no network. Tenants
// on it reach the world and are reached from the engine's machine, but not
// each other.
const ownNetwork = "hostler"

// noTalk is the bridge's option that keeps its containers apart.
const noTalk = "com.docker.network.bridge.enable_icc"

// networks are the names of the networks that the container joins, all of them
// there. The first decides the endpoint's address.
func (r *Runtime) networks(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return []string{ownNetwork}, r.ensureNetwork(ctx)
	}
	for _, name := range names {
		if name == "host" || strings.Contains(name, ":") {
			return nil, fmt.Errorf("%w: the network %q would share somebody else's", runtime.ErrInvalid, name)
		}
		_, err := r.api.NetworkInspect(ctx, name, network.InspectOptions{})
		if cerrdefs.IsNotFound(err) {
			return nil, fmt.Errorf("%w: there is no network %q; make it with `docker network create %s`",
				runtime.ErrInvalid, name, name)
		}
		if err != nil {
			return nil, fmt.Errorf("look up the network %s: %w", name, r.fault(ctx, err))
		}
	}
	return names, nil
}

// ensureNetwork makes our own network when it is not there.
func (r *Runtime) ensureNetwork(ctx context.Context) error {
	r.networkMu.Lock()
	defer r.networkMu.Unlock()
	err := r.checkNetwork(ctx)
	if !cerrdefs.IsNotFound(err) {
		return err
	}
	_, err = r.api.NetworkCreate(ctx, ownNetwork, network.CreateOptions{
		Driver:  "bridge",
		Options: map[string]string{noTalk: "false"},
		Labels:  r.labels(nil),
	})
	if cerrdefs.IsConflict(err) { // another Hostler was faster
		return r.checkNetwork(ctx)
	}
	if err != nil {
		return fmt.Errorf("make the network %s: %w", ownNetwork, r.refusal(ctx, err))
	}
	return nil
}

// checkNetwork looks the network up and refuses one of the name that would let
// tenants talk to each other. That there is none comes back as the engine's
// own error.
func (r *Runtime) checkNetwork(ctx context.Context) error {
	found, err := r.api.NetworkInspect(ctx, ownNetwork, network.InspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("look up the network %s: %w", ownNetwork, r.fault(ctx, err))
	}
	if found.Labels[labelManaged] != "true" || found.Options[noTalk] != "false" {
		return fmt.Errorf("%w: there is a network %q that Hostler did not make; "+
			"name a network in the workload, or remove that one", runtime.ErrInvalid, ownNetwork)
	}
	return nil
}
