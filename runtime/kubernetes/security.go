package kubernetes

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/hostler/hostler/runtime"
)

// capabilities are those of root's that the shim keeps. It passes none of them
// on: the workload's processes have none.
var capabilities = []corev1.Capability{
	"CHOWN",        // give volumes and unpacked files to the container's user
	"DAC_OVERRIDE", // empty directories that a tenant has closed to others
	"FOWNER",       // set the mode of what belongs to the container's user
	"KILL",         // end processes of other users
	"SETUID",       // run commands as the container's user
	"SETGID",       // and its groups
}

// account is the user of process 1 of a container.
type account struct {
	uid  int64
	gid  *int64 // nil for the account's own in the image
	root bool
}

// accountFor returns root, which starts everything as the workload's user, or
// that user itself if the cluster admits no other.
func (r *Runtime) accountFor(spec runtime.Spec, user string) (account, error) {
	if !r.nonRoot {
		root := int64(0)
		return account{gid: &root, root: true}, nil
	}
	name, group, named := strings.Cut(user, ":")
	uid, err := strconv.ParseInt(name, 10, 32)
	a := account{uid: uid}
	if err == nil && named {
		var gid int64
		gid, err = strconv.ParseInt(group, 10, 32)
		a.gid = &gid
	}
	if err != nil || uid <= 0 {
		return a, fmt.Errorf("%w: without root, the workload's user must be a number above 0, or two, UID:GID, and not %q: "+
			"set user in the workload", runtime.ErrInvalid, user)
	}
	for _, v := range spec.Volumes {
		if v.ReadOnly {
			return a, fmt.Errorf("%w: without root, nothing prevents the workload from writing to the volume %s: "+
				"make it writable", runtime.ErrInvalid, v.Name)
		}
	}
	return a, nil
}

// securityContext returns the security context of a container that runs as this
// account; as root, it has only these capabilities.
func (a account) securityContext(readOnly bool, capabilities ...corev1.Capability) *corev1.SecurityContext {
	no, nonRoot := false, !a.root
	if !a.root {
		capabilities = nil
	}
	return &corev1.SecurityContext{
		RunAsUser: &a.uid, RunAsGroup: a.gid, RunAsNonRoot: &nonRoot,
		Privileged: &no, AllowPrivilegeEscalation: &no,
		ReadOnlyRootFilesystem: &readOnly,
		Capabilities:           &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities},
	}
}

// shimUser returns the user for the shim's configuration: empty if the shim runs
// as that user.
func (a account) shimUser(user string) string {
	if a.root {
		return user
	}
	return ""
}
