package workload

import (
	"fmt"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
)

// The defaults of a script that is the value of a point (CFN's form).
const (
	textTimeout  = 5 * time.Second
	textCPUTime  = 5 * time.Second
	textFileSize = 100 << 20
)

// readText reads a script that is the value of a point.
func (v *hooksFile) readText(d *decoder, n *yaml.Node, at string, point hooks.Point) {
	d.nodes[at], d.nodes[at+".script"] = n, n
	var text scriptText
	text.read(d, n, at, rule{})
	if d.invalid[at] {
		return
	}
	var grace duration
	v.hooks = append(v.hooks, placedHook{
		form: textForm, at: at, actionAt: at, processAt: at, point: point,
		hookFile: hookFile{
			Script: &text, Shell: shellArgs{"/bin/bash"},
			hookPolicyFile: hookPolicyFile{Timeout: duration(textTimeout), OnError: string(hooks.Continue), Enabled: true},
			processFile:    processFile{Environment: textNames(point), Grace: &grace, Limits: &hookLimitsFile{CPUTime: duration(textCPUTime), FileSize: textFileSize}},
		},
	})
}

// textNames returns the variables of such a script. Its agent is the claim, or the
// container while there is none.
func textNames(point hooks.Point) environment {
	names := environment{"AGENT_ID": "${CONTAINER_ID}", "SWARM_ID": "${WORKLOAD_ID}"}
	if point == hooks.PostClaim || point == hooks.PreRelease || point.Rule().OfWait {
		names["AGENT_ID"] = "${CLAIM_ID}"
	}
	own := map[hooks.Point][]string{
		hooks.WaitSignal:  {"SIGNAL_DATA", "WAIT_DURATION"},
		hooks.WaitTimeout: {"TIMEOUT_DURATION", "EXCEEDED_BY"},
	}
	if point.Rule().OfWait {
		names["PHASE"] = "${WAIT_PHASE}"
		for _, name := range append(own[point], "TASK", "ITERATION", "BLOCKING_TYPE", "TIMEOUT_THRESHOLD") {
			names[name] = "${" + name + "}"
		}
	}
	return names
}

// readOther reads what a key that is not a point has: the names of builtins for
// an event, or what this version does not have yet.
func (v *hooksFile) readOther(d *decoder, p pair, at string) {
	name, child, n := p.key.Value, keyOf(at, p.key.Value), resolve(p.value)
	d.nodes[child] = n
	isEmptyList := n.Kind == yaml.SequenceNode && len(n.Content) == 0
	switch {
	case isEmptyList && noEvent[name] != "":
		v.cleared = append(v.cleared, name)
	case slices.Contains(eventNames(), name) || isLater(name) || noEvent[name] != "":
		v.readNames(d, n, name, child)
	default:
		d.unknown(p.key, at, slices.Concat(pointKeys(), gateKeys(), []string{eventsKey}, eventNames()))
	}
}

// readNames reads the names of the builtins for an event (lionagi's form).
func (v *hooksFile) readNames(d *decoder, n *yaml.Node, event, at string) {
	if n.Kind != yaml.SequenceNode {
		d.addError(n, at, "is "+kindOf(n)+", not a list", "write the names of builtins, or a hook under "+eventsKey)
		return
	}
	if len(n.Content) == 0 {
		v.cleared = append(v.cleared, event)
		d.addNoteAt(at, "disables no record: the activity log always has every event", "")
		return
	}
	on, _ := d.eventsNamed(event, at, namesForm)
	for i, e := range n.Content {
		e, child := resolve(e), elementOf(at, i)
		d.nodes[child], d.nodes[child+".builtin"] = e, e
		if e.Kind == yaml.MappingNode {
			d.addError(e, child, "is a mapping, not the name of a builtin", "write the hook under "+eventsKey+", with on: ["+event+"]")
			continue
		}
		var name builtinName
		name.read(d, e, child, rule{})
		if d.invalid[child] || len(on) == 0 {
			continue
		}
		v.hooks = append(v.hooks, placedHook{
			form: namesForm, at: child, actionAt: child, processAt: child, event: true,
			hookFile: hookFile{
				Name: fmt.Sprintf("%s.%s", event, name), Builtin: &name, On: on,
				hookPolicyFile: hookPolicyFile{Timeout: duration(hooks.DefaultRequestTimeout), OnError: string(hooks.Retry), Enabled: true},
			},
		})
	}
}
