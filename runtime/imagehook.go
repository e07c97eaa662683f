package runtime

import (
	"encoding/hex"
	"path"
	"strings"
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

// maxImageHookName bounds the name of a hook's file, in bytes.
const maxImageHookName = 64

// IsImageHookName reports whether a file of this name can be a hook: letters,
// digits, dots, underscores and hyphens, but the first one is not a dot or a hyphen.
// It is no regular expression, because each process of the shim would compile it:
// init, its workers, and the program hostler in containers.
func IsImageHookName(name string) bool {
	if name == "" || len(name) > maxImageHookName || name[0] == '.' || name[0] == '-' {
		return false
	}
	isOther := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	}
	return !strings.ContainsFunc(name, isOther)
}

// isDigest reports whether a text is a SHA-256 in lower-case hexadecimal.
func isDigest(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == 32 && strings.ToLower(text) == text
}

// IsListed reports whether a listing can have h: its path is that of a file of
// its point.
func (h ImageHook) IsListed() bool {
	name := path.Base(h.Path)
	isOfPoint := h.Path == ImageHooksDir+"/"+h.Point || h.Path == ImageHooksDir+"/"+h.Point+".d/"+name && name != h.Point
	return isOfPoint && IsImageHookName(name) && isDigest(h.Digest)
}

// ImageHooks are the hooks of an image.
type ImageHooks struct {
	// Hooks are in the order of the points that were asked for. Those of a point
	// are POINT, and then POINT.d/* in order of their names.
	Hooks []ImageHook `json:"hooks"`
	// Refused has one sentence for each file that is no hook, and why.
	Refused []string `json:"refused"`
}
