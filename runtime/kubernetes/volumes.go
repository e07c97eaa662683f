package kubernetes

import (
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// installDir is where the init container mounts the directories that it prepares.
const installDir = "/hostler"

// emptyDir is an emptyDir of the pod. Its content is removed with the pod and
// outlives its container.
type emptyDir struct {
	name     string
	target   string // its path in the container
	mode     string // octal; the kubelet gives every one 0777
	owner    int64
	memory   string // a tmpfs of that size; empty for the node's disk
	readOnly bool   // for the workload
}

// tmpfs are the temporary filesystems. A Wipe empties them. The same files in the
// image's own directories would make the container unusable for the next
// tenant. Their pages count towards the container's memory.
var tmpfs = []struct {
	emptyDir
	always bool // also with a writable root filesystem
}{
	{emptyDir{name: "hostler-tmp", target: "/tmp", mode: "1777", memory: "100Mi"}, true},
	{emptyDir{name: "hostler-var-tmp", target: "/var/tmp", mode: "1777", memory: "100Mi"}, true},
	{emptyDir{name: "hostler-root-run", target: "/run", mode: "0755", memory: "10Mi"}, false},
	{emptyDir{name: "hostler-run", target: shim.RunDir, mode: "0700", owner: shim.UID, memory: "1Mi"}, true},
}

// emptyDirs returns all of a pod's.
func emptyDirs(spec runtime.Spec) []emptyDir {
	all := []emptyDir{{name: "hostler-shim", target: shim.Mount, readOnly: true}}
	taken, hasReadOnly := make(map[string]bool), false
	for i, v := range spec.Volumes {
		taken[path.Clean(v.Target)] = true
		hasReadOnly = hasReadOnly || v.ReadOnly
		all = append(all, emptyDir{name: volumeName(i), target: v.Target, mode: "0755", readOnly: v.ReadOnly})
	}
	for _, t := range tmpfs {
		if !taken[t.target] && (t.always || spec.ReadOnly) {
			all = append(all, t.emptyDir)
		}
	}
	if hasReadOnly {
		all = append(all, emptyDir{name: "hostler-aside", target: shim.WritableMirrorDir, mode: "0700", owner: shim.UID, memory: "64Ki"})
	}
	return all
}

// volumeName returns the pod's name for a volume. The workload's own names may be
// longer than Kubernetes allows.
func volumeName(i int) string { return "volume-" + strconv.Itoa(i) }

// volumes returns the directories as the pod declares them.
func volumes(all []emptyDir) []corev1.Volume {
	declared := make([]corev1.Volume, 0, len(all))
	for _, f := range all {
		source := &corev1.EmptyDirVolumeSource{}
		if f.memory != "" {
			size := resource.MustParse(f.memory)
			source.Medium, source.SizeLimit = corev1.StorageMediumMemory, &size
		}
		declared = append(declared, corev1.Volume{Name: f.name, VolumeSource: corev1.VolumeSource{EmptyDir: source}})
	}
	return declared
}

// mounts returns the directories as the workload sees them. A directory must
// precede what is mounted in it; the container runtime sorts them.
func mounts(spec runtime.Spec, all []emptyDir, as account) []corev1.VolumeMount {
	list := make([]corev1.VolumeMount, 0, len(all))
	for _, f := range all {
		m := corev1.VolumeMount{Name: f.name, MountPath: f.target, ReadOnly: f.readOnly}
		if f.target != shim.Mount {
			m.SubPath = as.subPath()
		}
		list = append(list, m)
	}
	for i, v := range spec.Volumes {
		if v.ReadOnly {
			list = append(list, corev1.VolumeMount{Name: volumeName(i), MountPath: mirrorPath(i)})
		}
	}
	return list
}

// subPath returns the directory of a volume that is mounted. An emptyDir belongs
// to root; an account that is not root creates one of its own in it.
func (a account) subPath() string {
	if a.root {
		return ""
	}
	return "own"
}

// mirrorPath returns where a volume that is mounted read-only can be written.
func mirrorPath(i int) string { return shim.WritableMirrorDir + "/" + volumeName(i) }

// installArgs returns the directories as the init container sees them, and its
// arguments, which prepare them.
func installArgs(all []emptyDir, as account) (volumes []corev1.VolumeMount, args []string) {
	args = []string{"hostler-shim", "install", path.Join(installDir, all[0].name)}
	for _, f := range all {
		at := path.Join(installDir, f.name)
		volumes = append(volumes, corev1.VolumeMount{Name: f.name, MountPath: at})
		if f.target == shim.Mount {
			continue
		}
		owner := f.owner
		if !as.root {
			owner = as.uid
		}
		args = append(args, f.mode+":"+strconv.FormatInt(owner, 10)+":"+path.Join(at, as.subPath()))
	}
	return volumes, args
}
