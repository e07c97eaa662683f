package hooks

import (
	"path"

	"github.com/hostler/hostler/runtime"
)

// ImagePrefix begins the names of the hooks of an image. No hook of a file has
// such a name.
const ImagePrefix = "image:"

// ImageFile is the action that runs a file of the image, as a command without
// arguments. No file of a workload has it.
type ImageFile struct {
	Path   string
	Digest string // another content is not run
}

// Kind returns KindCommand.
func (ImageFile) Kind() Kind { return KindCommand }

// Summary returns the path.
func (f ImageFile) Summary() []string { return []string{f.Path} }

// Names returns nil: there are no templates.
func (ImageFile) Names() []string { return nil }

// ImageHooksAt returns those of an image's hooks that run at p, with the defaults
// of the point.
func ImageHooksAt(p Point, all []runtime.ImageHook) []Hook {
	var list []Hook
	for _, h := range all {
		if h.Point == string(p) {
			list = append(list, Hook{
				Name: ImagePrefix + path.Base(h.Path), Action: ImageFile{h.Path, h.Digest},
				Timeout: p.Rule().DefaultTimeout, OnError: Fail,
			})
		}
	}
	return list
}

// PointsOfImageHooks returns the points at which commands can run.
func PointsOfImageHooks() []string {
	var names []string
	for _, r := range points {
		if !r.NotStarted {
			names = append(names, string(r.Point))
		}
	}
	return names
}
