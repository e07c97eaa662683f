package runtime

import (
	"path"
	"regexp"
)

// ImageHooksDir is the directory of an image that has its hooks: the files POINT
// and POINT.d/* for each point.
const ImageHooksDir = "/etc/hostler/hooks"

// Limits of the hooks of an image.
const (
	MaxImageHooks    = 64       // files
	MaxImageHookSize = 16 << 20 // bytes of each
	// MaxRefusedImageHooks is how many are Refused one by one. One more sentence has
	// the number of the others.
	MaxRefusedImageHooks = 64
)

// ImageHook is an executable file of an image that is a hook.
type ImageHook struct {
	Point  string `json:"point"`
	Path   string `json:"path"`   // absolute, in the container
	Digest string `json:"digest"` // the SHA-256 of its content, in hexadecimal
}

// imageHookName and imageHookDigest match the names and the digests of hooks.
var (
	imageHookName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
	imageHookDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// IsImageHookName reports whether a file of this name can be a hook.
func IsImageHookName(name string) bool { return imageHookName.MatchString(name) }

// IsListed reports whether a listing can have h: its path is that of a file of
// its point.
func (h ImageHook) IsListed() bool {
	name := path.Base(h.Path)
	isOfPoint := h.Path == ImageHooksDir+"/"+h.Point || h.Path == ImageHooksDir+"/"+h.Point+".d/"+name && name != h.Point
	return isOfPoint && IsImageHookName(name) && imageHookDigest.MatchString(h.Digest)
}

// ImageHooks are the hooks of an image.
type ImageHooks struct {
	// Hooks are in the order of the points that were asked for. Those of a point
	// are POINT, and then POINT.d/* in order of their names.
	Hooks []ImageHook `json:"hooks"`
	// Refused has one sentence for each file that is no hook, and why.
	Refused []string `json:"refused"`
}
