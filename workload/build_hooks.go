package workload

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
)

// defaultName returns the name of the hook of a point that has none.
func defaultName(p hooks.Point, index int) string { return fmt.Sprintf("%s[%d]", p, index) }

// addHooks adds the hooks of a valid file to its workload.
func (f *file) addHooks(w *Workload) {
	dir := w.ScriptDir()
	for _, h := range f.Hooks.hooks {
		if h.event && len(h.On) == 0 {
			continue // this version does not fire its events
		}
		if h.event {
			w.EventHooks = append(w.EventHooks, h.eventHook(dir))
			continue
		}
		if h.gate != "" {
			h.index = len(w.Gates[h.gate])
			w.addGateHook(h.gate, h.gateHook())
			continue
		}
		h.index = len(w.Hooks[h.point])
		w.Hooks[h.point] = append(w.Hooks[h.point], h.hook(dir))
	}
	f.addGuards(w)
	w.captureResponses()
	slices.SortFunc(w.EventHooks, func(a, b hooks.EventHook) int { return cmp.Compare(a.Name, b.Name) })
}

// responseName returns the name that stands for the response of a hook.
func responseName(hook string) string { return "HOOK_" + hook + "_RESPONSE" }

// captureResponses has the requests capture their responses that a hook names.
func (w *Workload) captureResponses() {
	var all []*hooks.Hook
	for _, list := range w.Hooks {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	for i := range w.EventHooks {
		all = append(all, &w.EventHooks[i].Hook)
	}
	named := map[string]bool{}
	addNames := func(h hooks.Hook) {
		for _, name := range append(h.Action.Names(), h.Condition.Names()...) {
			named[name] = true
		}
	}
	for _, h := range all {
		addNames(*h)
	}
	for _, list := range w.Gates {
		for _, h := range list {
			addNames(h)
		}
	}
	for _, h := range all {
		if r, ok := h.Action.(hooks.Request); ok && named[responseName(h.Name)] {
			r.ResponseAs = responseName(h.Name)
			h.Action = r
		}
	}
}

func (h placedHook) eventHook(dir string) hooks.EventHook {
	e := hooks.EventHook{Hook: h.hook(dir), On: h.On, Point: h.point}
	if h.Debounce != nil {
		e.Debounce = time.Duration(*h.Debounce)
	}
	return e
}

func (h placedHook) hook(dir string) hooks.Hook {
	hook := hooks.Hook{
		Name:    cmp.Or(h.Name, defaultName(h.point, h.index)),
		Timeout: time.Duration(h.Timeout), OnError: hooks.OnError(h.OnError),
		Idempotent: h.Idempotent, Disabled: !h.Enabled,
		Action: h.action(dir),
	}
	if h.Condition != "" {
		hook.Condition, _ = variables.ParseCondition(h.Condition) // it was checked
	}
	if h.StopOn != nil {
		hook.StopOn = h.StopOn.Exit
	}
	switch hook.OnError {
	case "log":
		hook.OnError = hooks.Continue
	case hooks.Retry:
		hook.Retries = hooks.DefaultRetries
		if h.event {
			hook.Retries = hooks.DefaultEventRetries
		}
		if h.Retries != nil {
			hook.Retries = *h.Retries
		}
		if h.kind() == hooks.KindBuiltin {
			hook.Retries = 0 // it would fail again
		}
		if h.event || h.OnExhausted == string(hooks.Continue) {
			hook.OnExhausted = hooks.Continue
		}
	}
	return hook
}

func (h placedHook) action(dir string) hooks.Action {
	switch h.kind() {
	case hooks.KindScript:
		s := hooks.Script{Text: string(*h.Script), Shell: h.Shell, Process: h.process()}
		s.Workdir = cmp.Or(s.Workdir, dir)
		if len(s.Shell) == 0 {
			s.Shell = []string{"/bin/sh"}
		}
		return s
	case hooks.KindHTTP:
		return h.HTTP.request()
	case hooks.KindWebhook:
		return h.Webhook.request()
	case hooks.KindBuiltin:
		return hooks.Builtin{Name: builtinFunction(string(*h.Builtin)), With: h.With}
	}
	return hooks.Command{Args: h.Command, Process: h.process()}
}

func (h placedHook) process() hooks.Process {
	p := hooks.Process{
		User: string(h.User), Workdir: h.Workdir, Environment: templates(h.Environment), Grace: (*time.Duration)(h.Grace),
	}
	if l := h.Limits; l != nil {
		p.Limits = hooks.ProcessLimits{
			CPUTime: time.Duration(l.CPUTime), Memory: int64(l.Memory), FileSize: int64(l.FileSize), Output: int64(l.Output),
		}
	}
	return p
}

func (r *requestFile) request() hooks.Request {
	method := r.Method
	if method == "" {
		method = "GET"
		if r.Body != nil {
			method = "POST"
		}
	}
	return hooks.Request{
		Method: method, URL: template(r.URL), Headers: templates(r.Headers), Body: body(r.Body), Auth: r.Auth.auth(),
		Expect: r.Expect, Capture: paths(r.Capture), KeepResponse: r.KeepResponse,
	}
}

func (r *webhookFile) request() hooks.Request {
	return hooks.Request{
		Webhook: true, Method: "POST", URL: template(r.URL), Headers: templates(r.Headers), Body: body(r.Body), Sign: r.Sign,
		Expect: r.Expect, Capture: paths(r.Capture), KeepResponse: r.KeepResponse,
	}
}

// authTypes are the types of auth by their names in the file.
var authTypes = map[string]hooks.AuthType{
	"none": hooks.AuthNone, "bearer": hooks.AuthBearer, "api_key": hooks.AuthAPIKey,
	"gcp": hooks.AuthGCP, "gcp_service_account": hooks.AuthGCPServiceAccount,
	"bearer-token": hooks.AuthBearer, "api-key-header": hooks.AuthAPIKey,
	"gcp-default": hooks.AuthGCP, "gcp-service-account": hooks.AuthGCPServiceAccount,
}

func (v *authFile) auth() hooks.Auth {
	if v == nil {
		return hooks.Auth{}
	}
	return hooks.Auth{Type: authTypes[v.Type], Secret: v.Secret, Header: v.Header}
}

// template returns the template of a text. Text that is not one is literal: in
// environments, files that are older than templates may have it.
func template(text string) variables.Template {
	t, err := variables.ParseTemplate(text)
	if err != nil {
		return variables.Literal(text)
	}
	return t
}

func body(text *string) *variables.Template {
	if text == nil {
		return nil
	}
	t := template(*text)
	return &t
}

// templates returns the templates of texts by name.
func templates[M ~map[string]string](texts M) map[string]variables.Template {
	if len(texts) == 0 {
		return nil
	}
	all := make(map[string]variables.Template, len(texts))
	for name, text := range texts {
		all[name] = template(text)
	}
	return all
}

// paths returns the paths of captured values by name.
func paths(texts captureFile) map[string]variables.Path {
	if len(texts) == 0 {
		return nil
	}
	all := make(map[string]variables.Path, len(texts))
	for name, text := range texts {
		all[name], _ = variables.ParsePath(text) // it was checked
	}
	return all
}
