package workload

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
)

// advise notes what is valid and probably not what the author wants. The
// durations without a unit are noted as they are read.
func (d *decoder) advise(f *file) {
	if message := imageAdvice(f.Image); message != "" {
		d.addAdvice(d.nearest("image"), "image", message, "write a tag that does not move, or a digest")
	}
	if f.Healthcheck == nil {
		d.addAdvice(d.nearest("healthcheck"), "healthcheck", "is missing: a container is ready as soon as its main process runs", "write a test that succeeds when the program can be used, or test: [NONE]")
	}
	if f.Pool.MinIdle > 0 {
		return
	}
	for _, h := range f.Hooks.hooks {
		if h.point == hooks.PostCreate && !h.event {
			d.addAdvice(d.nearest(h.at), h.at, "delays a claim: with pool.min_idle 0, a container is created when a tenant waits for it", "raise min_idle")
			return
		}
	}
}

// imageAdvice returns what is wrong with the tag of an image, or "".
func imageAdvice(image string) string {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if strings.Contains(name, "@") {
		return ""
	}
	_, tag, tagged := strings.Cut(name, ":")
	switch {
	case !tagged:
		return fmt.Sprintf("has no tag: %s is what latest stands for when it is pulled", truncate(image))
	case tag == "latest":
		return "has the tag latest, which stands for another image from time to time"
	}
	return ""
}

// addAdvice adds an advice about the node n at a path.
func (d *decoder) addAdvice(n *yaml.Node, at, message, hint string) {
	d.advice = append(d.advice, Note{File: d.file, Line: n.Line, Column: n.Column, Field: at, Message: message, Hint: hint})
}
