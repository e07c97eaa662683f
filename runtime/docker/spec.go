package docker

import (
	"fmt"
	"path"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-units"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/backend"
)

// The defaults for what a spec leaves open, and the limits that no spec can
// change.
const (
	defaultPIDs   = 512
	defaultMemory = 512 << 20
	defaultCPUs   = 1

	// maxOpenFiles is below the hard limit of every engine that we tested,
	// including rootless and sandboxed ones, which cannot raise theirs.
	maxOpenFiles = 16384
)

// capabilities are those of root's that the shim keeps. It passes none of them
// on: the workload's processes have none.
var capabilities = []string{
	"CHOWN",        // give volumes and unpacked files to the container's user
	"DAC_OVERRIDE", // empty directories that a tenant has closed to others
	"FOWNER",       // set the mode of what belongs to the container's user
	"KILL",         // end processes of other users
	"SETUID",       // run commands as the container's user
	"SETGID",       // and its groups
}

// shimOnlyOptions restrict a temporary filesystem to the shim.
var shimOnlyOptions = fmt.Sprintf("rw,noexec,nosuid,nodev,mode=0700,uid=%d,gid=%[1]d", shim.UID)

// tmpfs are the temporary filesystems. A Wipe empties them. The same files in the
// image's own directories would make the container unusable for the next
// tenant.
var tmpfs = []struct {
	path, options string
	always        bool // also with a writable root filesystem
}{
	{"/tmp", "rw,exec,nosuid,nodev,size=100m,mode=1777", true},
	{"/var/tmp", "rw,exec,nosuid,nodev,size=100m,mode=1777", true},
	{"/run", "rw,exec,nosuid,nodev,size=10m,mode=0755", false},
	{shim.RunDir, shimOnlyOptions + ",size=1m", true},
}

// containerConfig returns the engine's configuration of the container and its
// process 1, without the networks.
func (r *Runtime) containerConfig(spec runtime.Spec, img imageConfig) (*container.Config, error) {
	user := spec.User
	if user == "" {
		user = img.user
	}
	env, err := r.shimConfig(spec, img, user).Env()
	if err != nil {
		return nil, fmt.Errorf("%w: neither the workload nor its image %s has a command",
			runtime.ErrInvalid, spec.Image)
	}
	return &container.Config{
		Image:      spec.Image,
		Entrypoint: []string{shim.BinaryPath, "init"},
		Env:        []string{env},
		// The shim is root, with the few capabilities above, and starts the
		// workload's command as its user.
		User:       "0:0",
		WorkingDir: "/",
		// The shim translates it into the workload's own signal.
		StopSignal:  "SIGTERM",
		StopTimeout: stopTimeout(spec.StopGracePeriod),
		// The image's own check would cost an exec each time, and no one reads it.
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		Labels: r.labels(map[string]string{
			labelContainer: spec.ID,
			labelWorkload:  spec.Workload,
			labelRevision:  spec.Revision,
			labelUser:      user,
			labelPorts:     backend.FormatPorts(spec.Ports),
			labelProtocol:  shim.Protocols().Format(),
		}),
	}, nil
}

// shimConfig returns the shim's configuration: what the engine would have done.
func (r *Runtime) shimConfig(spec runtime.Spec, img imageConfig, user string) shim.Config {
	c := shim.Config{
		Args:        spec.Command,
		Environment: spec.Environment,
		User:        user,
		Workdir:     spec.Workdir,
		Key:         shim.DeriveKey(r.secret, spec.ID),
		StopSignal:  runtime.StopSignal(spec.StopSignal, img.stopSignal),
		StopGrace:   spec.StopGracePeriod,
		// RunDir is empty after each start.
		FenceFile: shim.StateDir + "/" + shim.FenceFileName,
		ExitFile:  shim.StateDir + "/exit",
	}
	if len(c.Args) == 0 {
		c.Args = img.args
	}
	if c.Workdir == "" {
		c.Workdir = img.workdir
	}
	for _, v := range spec.Volumes {
		if !v.ReadOnly { // the shim could not change the owner of a read-only one
			c.Volumes = append(c.Volumes, v.Target)
		}
	}
	return c
}

// hostConfig returns the limits and restrictions of the container.
func (r *Runtime) hostConfig(spec runtime.Spec, network string) *container.HostConfig {
	pids, memory := spec.Limits.PIDs, spec.Limits.Memory
	if pids <= 0 {
		pids = defaultPIDs
	}
	if memory <= 0 {
		memory = defaultMemory
	}
	cpus := spec.Limits.CPUs
	if cpus <= 0 {
		cpus = defaultCPUs
	}
	noInit := false // the shim reaps processes
	return &container.HostConfig{
		NetworkMode:    container.NetworkMode(network),
		DNS:            spec.DNS,
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		LogConfig:      container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "10m", "max-file": "2"}},
		CapDrop:        []string{"ALL"},
		CapAdd:         capabilities,
		SecurityOpt:    []string{"no-new-privileges"},
		IpcMode:        container.IPCModePrivate,
		CgroupnsMode:   container.CgroupnsModePrivate,
		ReadonlyRootfs: spec.ReadOnly,
		Init:           &noInit,
		Tmpfs:          tmpfsMounts(spec),
		Mounts:         r.mounts(spec),
		Resources: container.Resources{
			NanoCPUs:   int64(cpus * 1e9),
			Memory:     memory,
			MemorySwap: memory, // memory and swap together: no swap
			PidsLimit:  &pids,
			Ulimits: []*units.Ulimit{
				{Name: "nofile", Soft: maxOpenFiles, Hard: maxOpenFiles},
				{Name: "core", Soft: 0, Hard: 0},
			},
		},
	}
}

// tmpfsMounts returns the temporary filesystems that no volume replaces.
func tmpfsMounts(spec runtime.Spec) map[string]string {
	all := make(map[string]string)
	for _, t := range tmpfs {
		taken := slices.ContainsFunc(spec.Volumes, func(v runtime.Volume) bool {
			return path.Clean(v.Target) == t.path
		})
		if !taken && (t.always || spec.ReadOnly) {
			all[t.path] = t.options
		}
	}
	if slices.ContainsFunc(spec.Volumes, func(v runtime.Volume) bool { return v.ReadOnly }) {
		all[shim.WritableMirrorDir] = shimOnlyOptions + ",size=64k"
	}
	return all
}

// mounts returns those of the shim, its state and the container's own volumes.
func (r *Runtime) mounts(spec runtime.Spec) []mount.Mount {
	all := []mount.Mount{{
		Type: mount.TypeVolume, Source: r.shim.volume(), Target: shim.Mount, ReadOnly: true,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: r.labels(nil)},
	}, {
		Type: mount.TypeVolume, Source: stateVolume(spec.ID), Target: shim.StateDir,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: r.labels(map[string]string{labelContainer: spec.ID})},
	}}
	for _, v := range spec.Volumes {
		all = append(all, mount.Mount{
			Type: mount.TypeVolume, Source: volumeName(spec.ID, v.Name), Target: v.Target, ReadOnly: v.ReadOnly,
			VolumeOptions: &mount.VolumeOptions{
				NoCopy: true, Labels: r.labels(map[string]string{labelContainer: spec.ID}),
			},
		})
		if v.ReadOnly {
			mirror := all[len(all)-1]
			mirror.Target, mirror.ReadOnly = shim.WritableMirrorDir+"/"+v.Name, false
			all = append(all, mirror)
		}
	}
	return all
}
