package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/claim/seal"
	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/runtime/docker"
)

// trialCleanup is how long the removal of a trial may take, with its hooks.
const trialCleanup = 5 * time.Minute

// trialDir is the data directory of one trial. Its lock distinguishes a trial that
// runs from one that was killed, whose directory has all that is needed to remove
// the rest: the database, and the runtime.
type trialDir struct {
	path string
	lock *os.File
}

// trialConfig is what has to be known to remove what a killed trial has left.
type trialConfig struct {
	Runtime    string `json:"runtime"`
	Shim       string `json:"shim,omitempty"`
	ShimImage  string `json:"shim_image,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
}

const trialConfigFile = "trial.json"

// newTrialDir creates the directory of a trial and locks it.
func newTrialDir(parent string) (*trialDir, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of trials: %w; name another one with --data", err)
	}
	parent, err := safeTrialParent(parent)
	if err != nil {
		return nil, err
	}
	for {
		path, err := os.MkdirTemp(parent, "trial-")
		if err != nil {
			return nil, fmt.Errorf("create the directory of a trial: %w; name another one with --data", err)
		}
		// Between the two calls a cleanup may take the directory for a killed trial's.
		d, err := lockTrialDir(path)
		if err != nil || d != nil {
			return d, err
		}
	}
}

// lockTrialDir locks a directory. It returns nil if a trial runs there, if it was
// removed, or if it is another user's: a cleanup runs what the directory names.
func lockTrialDir(path string) (*trialDir, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock the directory of a trial: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if err = errors.Join(f.Close()); err != nil {
			return nil, err
		}
		return nil, nil
	}
	opened, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(opened, now) || !isOwn(opened) {
		return nil, f.Close()
	}
	return &trialDir{path: path, lock: f}, nil
}

// configure writes what a cleanup needs, and returns the configuration of the
// trial's server.
func (d *trialDir) configure(c serveConfig) (serveConfig, error) {
	c.data, c.ownState = d.path, true
	if c.credentialsDir == "" {
		c.credentialsDir = filepath.Join(d.path, "credentials")
		if err := os.Mkdir(c.credentialsDir, 0o700); err != nil {
			return c, err
		}
		key := base64.StdEncoding.EncodeToString(randomBytes(32))
		if err := os.WriteFile(filepath.Join(c.credentialsDir, seal.KeyFile), []byte(key+"\n"), 0o600); err != nil {
			return c, fmt.Errorf("write the key of secret parameters: %w", err)
		}
	}
	text, err := json.Marshal(trialConfig{c.runtime, c.shim, c.shimImage, c.kubeconfig, c.namespace})
	if err != nil {
		return c, err
	}
	if err := os.WriteFile(filepath.Join(d.path, trialConfigFile), text, 0o600); err != nil {
		return c, fmt.Errorf("write the configuration of the trial: %w", err)
	}
	return c, c.makePrivate()
}

// remove removes the directory.
func (d *trialDir) remove() error { return errors.Join(os.RemoveAll(d.path), d.lock.Close()) }

// close leaves the directory to a later cleanup.
func (d *trialDir) close() error { return d.lock.Close() }

// removeLeftovers removes what trials have left that were killed.
func (o *trialOptions) removeLeftovers(ctx context.Context) error {
	parent, err := safeTrialParent(o.parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("read the directory of trials: %w", err)
	}
	var all error
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "trial-") {
			continue
		}
		d, err := lockTrialDir(filepath.Join(parent, e.Name()))
		if d != nil {
			o.printf("removing what an interrupted trial has left in %s", d.path)
			err = o.removeLeftover(ctx, d)
		}
		all = errors.Join(all, err)
	}
	return all
}

// removeLeftover removes what one killed trial has left, then its directory.
func (o *trialOptions) removeLeftover(ctx context.Context, d *trialDir) error {
	text, err := os.ReadFile(filepath.Join(d.path, trialConfigFile))
	var was trialConfig
	if err == nil {
		err = json.Unmarshal(text, &was)
	}
	if _, missing := os.Stat(filepath.Join(d.path, "hostler.db")); err != nil || missing != nil {
		return d.remove() // it was killed before it began
	}
	c := serveConfig{
		store: sqlite, runtime: was.Runtime, shim: was.Shim, shimImage: was.ShimImage, kubeconfig: was.Kubeconfig, namespace: was.Namespace,
		data: d.path, ownState: true, credentialsDir: filepath.Join(d.path, "credentials"), redactor: o.config.redactor,
	}
	if err := c.makePrivate(); err != nil {
		return errors.Join(err, d.close())
	}
	s, err := wire(ctx, c, o.logger())
	if err != nil {
		return errors.Join(err, d.close())
	}
	err = s.usePrivately(ctx, c, func(_ string, api *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, trialCleanup)
		defer cancel()
		all, err := api.Workloads(ctx)
		for _, w := range all {
			err = errors.Join(err, removeTrial(ctx, api, w.ID), awaitRemoved(ctx, api, w.ID))
		}
		return err
	})
	if err = errors.Join(err, s.purge(ctx), s.closeAll()); err != nil {
		return errors.Join(err, d.close())
	}
	return d.remove()
}

// removeTrial ends the claims on a workload, whose tenants' state is discarded, and
// deletes it.
func removeTrial(ctx context.Context, api *client.Client, workload string) error {
	claims, err := api.Claims(ctx, client.ClaimFilter{Workload: workload})
	for _, c := range claims {
		_, releaseErr := api.Release(ctx, c.ID, true)
		err = errors.Join(err, releaseErr)
	}
	_, deleteErr := api.DeleteWorkload(ctx, workload)
	if problem, ok := errors.AsType[*client.Error](deleteErr); ok && problem.Code == client.CodeWorkloadNotFound {
		deleteErr = nil
	}
	return errors.Join(err, deleteErr)
}

// awaitRemoved waits until a workload is gone with its last container.
func awaitRemoved(ctx context.Context, api *client.Client, workload string) error {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := api.Workload(ctx, workload)
		if problem, ok := errors.AsType[*client.Error](err); ok && problem.Code == client.CodeWorkloadNotFound {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("workload %s is not removed: %w", workload, context.Cause(ctx)), err)
		case <-again.C:
		}
	}
}

// purge removes what a server leaves on its engine for its next containers.
func (s *server) purge(ctx context.Context) error {
	rt := s.rt
	if o, ok := rt.(watchedBackend); ok {
		rt = o.backend
	}
	engine, ok := rt.(*docker.Runtime)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialCleanup)
	defer cancel()
	return engine.Purge(ctx)
}
