package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func atPoint(hook string) string { return fileWith("hooks: {post_claim: [" + hook + "]}") }

func atGate(hook string) string { return fileWith("hooks: {exec.before: [" + hook + "]}") }

func forEvents(hook string) string { return fileWith("hooks: {events: [" + hook + "]}") }

func listed(hook string) string { return fileWith("lifecycle_hooks: [" + hook + "]") }

func withSecret(hook string) string {
	return fileWith("secrets: {TOKEN: {file: t}}\nenvironment: {HOST: a}\nhooks: {post_claim: [" + hook + "]}")
}

// captures returns n values to capture.
func captures(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("A%d: $.a", i))
	}
	return strings.Join(list, ", ")
}

// invalidHookFiles are files with one mistake in their hooks, as invalidFiles.
// parseOnly shows those that the schema cannot find.
var invalidHookFiles = []struct {
	name, source, field, wantText string
	parseOnly                     bool
}{
	{"no action", atPoint("{name: x}"), "hooks.post_claim[0].command", "command, script, http, webhook and builtin", false},
	{"two actions", atPoint("{command: [a], http: {url: 'https://a.example'}}"), "hooks.post_claim[0].http", "second action", false},
	{"user of a request", atPoint("{http: {url: 'https://a.example'}, user: 1}"), "hooks.post_claim[0].user", "not used by http", true},
	{"shell of a command", atPoint("{command: [a], shell: [sh]}"), "hooks.post_claim[0].shell", "not used by command", true},
	{"with of a command", atPoint("{command: [a], with: {}}"), "hooks.post_claim[0].with", "not used by command", true},
	{"unknown option", atPoint("{builtin: log, with: {path: x}}"), "hooks.post_claim[0].with.path", "level, message", true},
	{"option's value", atPoint("{builtin: log, with: {level: loud}}"), "hooks.post_claim[0].with.level", "debug, info", true},
	{"option's kind", atPoint("{builtin: log, with: {message: 1}}"), "hooks.post_claim[0].with.message", "in quotes", true},
	{"empty script", atPoint("{script: ' '}"), "hooks.post_claim[0].script", "is empty", false},
	{"script too long", atPoint("{script: '" + strings.Repeat("x", 64<<10+1) + "'}"), "hooks.post_claim[0].script", "more than 65536", true},
	{"unknown builtin", atPoint("{builtin: lug}"), "hooks.post_claim[0].builtin", "did you mean log?", false},
	{"unknown name", atPoint("lug"), "hooks.post_claim[0]", "did you mean log?", false},
	{"guard", atPoint("guard_paths"), "hooks.post_claim[0]", "only gates have", false},
	{"guard as a mapping", atPoint("{builtin: guard_paths}"), "hooks.post_claim[0].builtin", "only gates have", false},
	{"guard for events", forEvents("{name: a, on: [claim], builtin: guard_destructive}"), "hooks.events[0].builtin", "only gates have", false},
	{"command at pre_start", fileWith("hooks: {pre_start: [{command: [a]}]}"), "hooks.pre_start[0].command", "not started", true},
	{"script at pre_start", fileWith("hooks: {pre-start: 'exit 0'}"), "hooks.pre-start", "not started", true},
	{"point twice", fileWith("hooks: {pre-stop: [], pre_destroy: []}"), "hooks.pre_destroy", "another name", true},
	{"secure", fileWith("secure: true"), "secure", "write workspace", true},
	{"command at a gate", atGate("{command: [a]}"), "hooks.exec.before[0].command", "write builtin or http", false},
	{"script at a gate", atGate("{script: a}"), "hooks.exec.before[0].script", "write builtin or http", false},
	{"webhook at a gate", atGate("{webhook: {url: 'https://a.example'}}"), "hooks.exec.before[0].webhook", "write builtin or http", false},
	{"no action at a gate", atGate("{name: a}"), "hooks.exec.before[0].command", "is missing", false},
	{"script as the value of a gate", fileWith("hooks: {exec.before: 'exit 0'}"), "hooks.exec.before", "not a list", false},
	{"on_error at a gate", atGate("{builtin: log, on_error: fail}"), "hooks.exec.before[0].on_error", "fails refuses", false},
	{"retries at a gate", atGate("{builtin: log, retries: 1}"), "hooks.exec.before[0].retries", "asks once", false},
	{"on_exhausted at a gate", atGate("{builtin: log, on_exhausted: continue}"), "hooks.exec.before[0].on_exhausted", "fails refuses", false},
	{"stop_on at a gate", atGate("{builtin: log, stop_on: {exit: [1]}}"), "hooks.exec.before[0].stop_on", "must allow", false},
	{"idempotent at a gate", atGate("{builtin: log, idempotent: true}"), "hooks.exec.before[0].idempotent", "asks once", false},
	{"blocking at a gate", atGate("{builtin: log, blocking: false, name: a}"), "hooks.exec.before[0].blocking", "always waits", false},
	{"debounce at a gate", atGate("{builtin: log, debounce: 1s}"), "hooks.exec.before[0].debounce", "hooks of events", false},
	{"on at a gate", atGate("{builtin: log, on: [claim]}"), "hooks.exec.before[0].on", "hooks of events", false},
	{"user at a gate", atGate("{builtin: log, user: 1}"), "hooks.exec.before[0].user", "not used by builtin", false},
	{"timeout at a gate", atGate("{builtin: log, timeout: 121s}"), "hooks.exec.before[0].timeout", "more than 2m", true},
	{"expect at a gate", atGate("{http: {url: 'https://a.example', expect: [403]}}"), "hooks.exec.before[0].http.expect", "allow", true},
	{"capture at a gate", atGate("{http: {url: 'https://a.example', capture: {A: $.a}}}"), "hooks.exec.before[0].http.capture", "nothing is kept", true},
	{"keep_response at a gate", atGate("{http: {url: 'https://a.example', keep_response: true}}"), "hooks.exec.before[0].http.keep_response", "nothing is kept", true},
	{"unknown builtin at a gate", atGate("guard_destructiv"), "hooks.exec.before[0]", "did you mean guard_destructive?", false},
	{"guard of commands for files", fileWith("hooks: {file.before: [guard_destructive]}"), "hooks.file.before[0]", "nothing to judge at file.before", false},
	{"guard of commands for files as a mapping", fileWith("hooks: {file.before: [{builtin: guard_destructive}]}"), "hooks.file.before[0].builtin", "nothing to judge", true},
	{"guard of paths for requests", fileWith("hooks: {request.before: [guard_paths]}"), "hooks.request.before[0]", "nothing to judge", false},
	{"guard of paths without a directory", fileWith("hooks: {file.before: [guard_paths]}"), "hooks.file.before[0]", "allowed: [DIRECTORY]", true},
	{"allowed without a list", atGate("{builtin: guard_paths, with: {allowed: /w}}"), "hooks.exec.before[0].with.allowed", "not a list", true},
	{"allowed with an empty list", atGate("{builtin: guard_paths, with: {allowed: []}}"), "hooks.exec.before[0].with.allowed", "is empty", true},
	{"allowed with a relative path", atGate("{builtin: guard_paths, with: {allowed: [/a, b]}}"), "hooks.exec.before[0].with.allowed[1]", "not an absolute path", true},
	{"allowed with a long form", atGate("{builtin: guard_paths, with: {allowed: [/a/../b]}}"), "hooks.exec.before[0].with.allowed[0]", "write /b", true},
	{"option of guard_destructive", atGate("{builtin: guard_destructive, with: {patterns: [a]}}"), "hooks.exec.before[0].with.patterns", "it has none", true},
	{"gate twice", fileWith("hooks: {exec.before: [], tool.pre: []}"), "hooks.tool.pre", "another name of exec.before", true},
	{"hooks of a gate with one name", atGate("{name: a, builtin: log}, {name: a, builtin: log}"), "hooks.exec.before[1].name", "unique within a gate", true},
	{"untrusted in a header at a gate", atGate("{http: {url: 'https://a.example', headers: {X: '${TOOL_NAME}'}}}"), "hooks.exec.before[0].http.headers.X", "written by a tenant", true},
	{"command of a list at a gate", listed("{name: a, on: [exec.before], action: {type: command, command: [a]}}"), "hooks[0].action", "write builtin or http", true},
	{"on_error of a list at a gate", listed("{name: a, on: [tool.pre], on_error: log, action: {type: http, url: 'https://a.example'}}"), "hooks[0].on_error", "fails refuses", true},
	{"blocking of a list at a gate", listed("{name: a, on: [tool.pre], blocking: true, action: {type: http, url: 'https://a.example'}}"), "hooks[0].blocking", "always waits", true},
	{"timeout at a wait point", fileWith("hooks: {wait_start: [{command: [a], timeout: 121s}]}"), "hooks.wait_start[0].timeout", "more than 2m", true},

	{"timeout of a request", atPoint("{http: {url: 'https://a.example'}, timeout: 121s}"), "hooks.post_claim[0].timeout", "more than 2m", true},
	{"on_exhausted alone", atPoint("{command: [a], on_exhausted: continue}"), "hooks.post_claim[0].on_exhausted", "on_error: retry", true},
	{"cpu_time", atPoint("{command: [a], limits: {cpu_time: 1500}}"), "hooks.post_claim[0].limits.cpu_time", "whole number", true},
	{"stop_on 0", atPoint("{command: [a], stop_on: {exit: [0]}}"), "hooks.post_claim[0].stop_on.exit[0]", "less than 1", false},
	{"stop_on of a request", atPoint("{http: {url: 'https://a.example'}, stop_on: {exit: [1]}}"), "hooks.post_claim[0].stop_on", "not used by http", true},
	{"debounce at a point", atPoint("{command: [a], debounce: 1s}"), "hooks.post_claim[0].debounce", "hooks of events", false},
	{"on at a point", atPoint("{command: [a], on: [claim]}"), "hooks.post_claim[0].on", "hooks of events", true},
	{"blocking: false with fail", atPoint("{name: a, builtin: log, blocking: false, on_error: fail}"), "hooks.post_claim[0].on_error", "continue, retry, log", true},
	{"blocking: false without name", atPoint("{builtin: log, blocking: false}"), "hooks.post_claim[0].name", "must have a name", false},
	{"blocking: false of a command", fileWith("hooks: {pre_release: [{name: a, command: [a], blocking: false}]}"), "hooks.pre_release[0].blocking", "no event for which a command can run", true},

	{"condition", atPoint("{command: [a], condition: 'PHASE > a'}"), "hooks.post_claim[0].condition", "", true},
	{"condition with an unknown name", atPoint("{command: [a], condition: PHASS == a}"), "hooks.post_claim[0].condition", "did you mean PHASE?", true},
	{"condition with a secret", withSecret("{command: [a], condition: TOKEN == a}"), "hooks.post_claim[0].condition", "secret", true},
	{"condition too long", atPoint("{command: [a], condition: 'PHASE == " + strings.Repeat("x", 1<<19) + "'}"), "hooks.post_claim[0].condition", "more than 4096", true},

	{"url missing", atPoint("{http: {method: GET}}"), "hooks.post_claim[0].http.url", "is missing", false},
	{"url with another scheme", atPoint("{http: {url: 'ftp://a.example'}}"), "hooks.post_claim[0].http.url", "https://", true},
	{"url with a password", atPoint("{http: {url: 'https://a:b@a.example'}}"), "hooks.post_claim[0].http.url", "password", true},
	{"variable in a host", atPoint("{http: {url: 'https://${TENANT_ID}.example/'}}"), "hooks.post_claim[0].http.url", "host", true},
	{"unknown variable", atPoint("{http: {url: 'https://a.example/${CONTAINERID}'}}"), "hooks.post_claim[0].http.url", "did you mean CONTAINER_ID?", true},
	{"unterminated variable", atPoint("{http: {url: 'https://a.example/${A'}}"), "hooks.post_claim[0].http.url", "not valid", true},
	{"nested variable", atPoint("{webhook: {url: 'https://a.example', body: '${${A}}'}}"), "hooks.post_claim[0].webhook.body", "not valid", true},
	{"untrusted outside a string", atPoint("{webhook: {url: 'https://a.example', body: '{\"a\": ${EVENT_DATA}}'}}"), "hooks.post_claim[0].webhook.body", "written by a tenant", true},
	{"untrusted in a header", atPoint("{http: {url: 'https://a.example', headers: {X: '${TASK}'}}}"), "hooks.post_claim[0].http.headers.X", "written by a tenant", true},
	{"line break in a header", atPoint(`{http: {url: 'https://a.example', headers: {X: "a\r\nb"}}}`), "hooks.post_claim[0].http.headers.X", "control character", true},
	{"name of a header", atPoint(`{http: {url: 'https://a.example', headers: {"X\n": a}}}`), `hooks.post_claim[0].http.headers."X\n"`, "not the name of a header", false},
	{"header twice", atPoint("{http: {url: 'https://a.example', headers: {X-A: a, x-a: b}}}"), "hooks.post_claim[0].http.headers.x-a", "same header", true},
	{"header of Hostler", atPoint("{http: {url: 'https://a.example', headers: {idempotency-key: a}}}"), "hooks.post_claim[0].http.headers.idempotency-key", "set by Hostler", true},
	{"header of a connection", atPoint("{http: {url: 'https://a.example', headers: {Keep-Alive: a}}}"), "hooks.post_claim[0].http.headers.Keep-Alive", "set by Hostler", true},
	{"header of a proxy", forEvents("{name: a, on: [claim], webhook: {url: 'https://a.example', headers: {Proxy-Authorization: a}}}"), "hooks.events[0].webhook.headers.Proxy-Authorization", "set by Hostler", true},
	{"header of a signature", forEvents("{name: a, on: [claim], webhook: {url: 'https://a.example', headers: {Webhook-Id: a}}}"), "hooks.events[0].webhook.headers.Webhook-Id", "set by Hostler", true},
	{"header of the host", listed("{name: a, on: [error], action: {type: http, url: 'https://a.example', headers: {HOST: a}}}"), "hooks[0].action.headers.HOST", "set by Hostler", true},
	{"method CONNECT", atPoint("{http: {url: 'https://a.example', method: CONNECT}}"), "hooks.post_claim[0].http.method", "one of GET", false},
	{"key in a header of Hostler", withSecret("{http: {url: 'https://a.example', auth: {type: api_key, secret: TOKEN, header: Host}}}"), "hooks.post_claim[0].http.auth.header", "set by Hostler", true},
	{"many captured values", atPoint("{http: {url: 'https://a.example', capture: {" + captures(33) + "}}}"), "hooks.post_claim[0].http.capture", "more than 32", false},
	{"header of auth", withSecret("{http: {url: 'https://a.example', headers: {Authorization: a}, auth: {type: bearer, secret: TOKEN}}}"), "hooks.post_claim[0].http.headers.Authorization", "set by auth", true},
	{"auth unknown", atPoint("{http: {url: 'https://a.example', auth: basic}}"), "hooks.post_claim[0].http.auth.type", "bearer", false},
	{"auth without secret", atPoint("{http: {url: 'https://a.example', auth: bearer}}"), "hooks.post_claim[0].http.auth.secret", "is missing", true},
	{"auth with an unknown secret", withSecret("{http: {url: 'https://a.example', auth: {type: bearer, secret: TOKN}}}"), "hooks.post_claim[0].http.auth.secret", "did you mean TOKEN?", true},
	{"auth with an unused key", atPoint("{http: {url: 'https://a.example', auth: {type: gcp, header: X}}}"), "hooks.post_claim[0].http.auth.header", "not used by gcp", true},
	{"gcp over http", atPoint("{http: {url: 'http://a.example', auth: gcp}}"), "hooks.post_claim[0].http.url", "not https", true},
	{"sign with an unknown secret", atPoint("{webhook: {url: 'https://a.example', sign: A}}"), "hooks.post_claim[0].webhook.sign", "not a secret", true},
	{"method of a webhook", atPoint("{webhook: {url: 'https://a.example', method: PUT}}"), "hooks.post_claim[0].webhook.method", "always a POST", false},
	{"auth of a webhook", atPoint("{webhook: {url: 'https://a.example', auth: gcp}}"), "hooks.post_claim[0].webhook.auth", "http with auth", false},
	{"expect", atPoint("{http: {url: 'https://a.example', expect: [600]}}"), "hooks.post_claim[0].http.expect[0]", "more than 599", false},
	{"capture path", atPoint("{http: {url: 'https://a.example', capture: {A: 'id'}}}"), "hooks.post_claim[0].http.capture.A", "not valid", true},
	{"capture of Hostler's name", atPoint("{http: {url: 'https://a.example', capture: {TASK: $.id}}}"), "hooks.post_claim[0].http.capture.TASK", "variable of Hostler", true},
	{"capture of a variable", withSecret("{http: {url: 'https://a.example', capture: {HOST: $.id}}}"), "hooks.post_claim[0].http.capture.HOST", "variable of environment", true},
	{"capture of a secret", withSecret("{http: {url: 'https://a.example', capture: {TOKEN: $.id}}}"), "hooks.post_claim[0].http.capture.TOKEN", "also a secret", true},
	{"captured twice", withSecret("{http: {url: 'https://a.example', capture: {ID: $.id}}}, {http: {url: 'https://a.example', capture: {ID: $.id}}}"), "hooks.post_claim[1].http.capture.ID", "also captured", true},
	{"ambiguous response", fileWith("hooks: {post_claim: [{name: a, http: {url: 'https://a.example'}}], pre_release: [{name: a, http: {url: 'https://a.example'}}, {builtin: log, condition: HOOK_a_RESPONSE == x}]}"), "hooks.pre_release[1]", "responses of hooks.post_claim[0] and hooks.pre_release[0]", true},
	{"response in a header", atPoint("{name: a, http: {url: 'https://a.example'}}, {http: {url: 'https://a.example', headers: {X: '${HOOK_a_RESPONSE}'}}}"), "hooks.post_claim[1].http.headers.X", "written by a tenant", true},
	{"capture of a response's name", atPoint("{name: a, http: {url: 'https://a.example', capture: {HOOK_a_RESPONSE: $.id}}}"), "hooks.post_claim[0].http.capture.HOOK_a_RESPONSE", "also the response of a hook", true},
	{"variable of a wait", atPoint("{http: {url: 'https://a.example/${WAIT_TYPE}'}}"), "hooks.post_claim[0].http.url", "which nothing supplies", true},
	{"variable of a wait for another event", fileWith("hooks: {events: [{name: a, on: [claim.failed], http: {url: 'https://a.example/${WAIT_TYPE}'}}]}"), "hooks.events[0].http.url", "which nothing supplies", true},
	{"variable of another event of a wait", fileWith("hooks: {events: [{name: a, on: [wait.started], http: {url: 'https://a.example/${EXCEEDED_BY}'}}]}"), "hooks.events[0].http.url", "which nothing supplies", true},
	{"data of a signal for an event", fileWith("hooks: {events: [{name: a, on: [wait], http: {url: 'https://a.example/', body: '{\"a\": ${SIGNAL_DATA}}'}}]}"), "hooks.events[0].http.body", "which nothing supplies", true},
	{"condition of a wait", atPoint("{command: [a], condition: TIMEOUT_DURATION == 1}"), "hooks.post_claim[0].condition", "which nothing supplies", true},
	{"secret in an environment", withSecret("{command: [a], environment: {A: '${TOKEN}'}}"), "hooks.post_claim[0].environment.A", "secret", true},
	{"secret and variable", fileWith("secrets: {A: {file: a}}\nenvironment: {A: b}"), "secrets.A", "variable of environment", true},
	{"secret of Hostler's name", fileWith("secrets: {AGENT_ID: {file: a}}"), "secrets.AGENT_ID", "another name of CONTAINER_ID", true},
	{"secret without place", fileWith("secrets: {A: {}}"), "secrets.A", "give one of them", true},
	{"secret with both", fileWith("secrets: {A: {file: a, env: HOSTLER_SECRET_A}}"), "secrets.A", "give one of them", true},
	{"secret of another variable", fileWith("secrets: {A: {env: HOME}}"), "secrets.A.env", "HOSTLER_SECRET_", false},
	{"file that is a limit", fileWith("secrets: {A: {file: b.allow}}"), "secrets.A.file", ".allow", true},
	{"secret that is a limit", fileWith("secrets: {A: {env: HOSTLER_SECRET_B_ALLOW}}"), "secrets.A.env", "_ALLOW", true},
	{"secret outside", fileWith("secrets: {A: {file: ../a}}"), "secrets.A.file", "credentials directory", false},

	{"event hook without a name", forEvents("{on: [claim], builtin: log}"), "hooks.events[0].name", "must have a name", false},
	{"event hook without events", forEvents("{name: a, builtin: log}"), "hooks.events[0].on", "is missing", false},
	{"event hook with no event", forEvents("{name: a, on: [], builtin: log}"), "hooks.events[0].on", "fewer than 1", false},
	{"event twice", forEvents("{name: a, on: [claim, claim], builtin: log}"), "hooks.events[0].on[1]", "same as", false},
	{"unknown event", forEvents("{name: a, on: [claim.relased], builtin: log}"), "hooks.events[0].on[0]", "did you mean claim.released?", true},
	{"resource in a published event", forEvents("{name: a, on: [custom], builtin: log}, {name: b, on: [agents.x], builtin: log}"), "hooks.events[1].on[0]", "not a type of event", true},
	{"published event with an odd name", forEvents("{name: a, on: [agent.Task], builtin: log}"), "hooks.events[0].on[0]", "not a type of event", true},
	{"event of a later version", forEvents("{name: a, on: [request.started], builtin: log}"), "hooks.events[0].on[0]", "does not fire it", true},
	{"models of a later version", forEvents("{name: a, on: [model-start], builtin: log}"), "hooks.events[0].on[0]", "does not fire it", true},
	{"event hooks with one name", forEvents("{name: a, on: [claim], builtin: log}, {name: a, on: [sync], builtin: log}"), "hooks.events[1].name", "unique within the hooks for events", true},
	{"event hook that fails", forEvents("{name: a, on: [claim], builtin: log, on_error: fail}"), "hooks.events[0].on_error", "continue, retry, log", true},
	{"event hook that blocks", forEvents("{name: a, on: [claim], builtin: log, blocking: true}"), "hooks.events[0].blocking", "nothing waits", true},
	{"event hook that stops", forEvents("{name: a, on: [claim], command: [a], stop_on: {exit: [1]}}"), "hooks.events[0].stop_on", "hooks of points", true},
	{"event hook's retries", forEvents("{name: a, on: [claim], builtin: log, on_error: retry, retries: 26}"), "hooks.events[0].retries", "more than 25", false},
	{"event hook's timeout", forEvents("{name: a, on: [claim], command: [a], timeout: 3m}"), "hooks.events[0].timeout", "more than 2m", true},
	{"command after the claim", forEvents("{name: a, on: [claim.released, claim.failed], command: [a]}"), "hooks.events[0].on", "no event for which a command can run", true},
	{"command without a container", forEvents("{name: a, on: [claim.requested], command: [a]}"), "hooks.events[0].on", "no event for which a command can run", true},
	{"script after the container", forEvents("{name: a, on: [post_destroy], script: exit 0}"), "hooks.events[0].on", "no event for which a script can run", true},
	{"mapping for an event", fileWith("hooks: {session.end: [{builtin: log}]}"), "hooks.session.end[0]", "under events", false},

	// What the validation of Scion's templates finds.
	{"listed: names", listed("{name: a, on: [error], action: {type: webhook, url: 'https://a.example'}}, {name: a, on: [error], action: {type: webhook, url: 'https://a.example'}}"), "hooks[1].name", "unique", true},
	{"listed: no event", listed("{name: a, on: [], action: {type: webhook, url: 'https://a.example'}}"), "hooks[0].on", "fewer than 1", false},
	{"listed: unknown event", listed("{name: a, on: [pre-stopp], action: {type: webhook, url: 'https://a.example'}}"), "hooks[0].on[0]", "not a type of event", true},
	{"listed: action type", listed("{name: a, on: [error], action: {type: exec, command: [a]}}"), "hooks[0].action.type", "command, script, http", false},
	{"listed: http without url", listed("{name: a, on: [error], action: {type: http}}"), "hooks[0].action.url", "is missing", false},
	{"listed: script without command", listed("{name: a, on: [pre-stop], blocking: true, action: {type: script}}"), "hooks[0].action.command", "is missing", false},
	{"listed: timeout", listed("{name: a, on: [pre-stop], blocking: true, timeout: 121s, action: {type: script, command: [a]}}"), "hooks[0].timeout", "more than 2m", true},
	{"listed: debounce", listed("{name: a, on: [error], debounce: soon, action: {type: webhook, url: 'https://a.example'}}"), "hooks[0].debounce", "not a valid duration", false},
	{"listed: on_error", listed("{name: a, on: [error], on_error: ignore, action: {type: webhook, url: 'https://a.example'}}"), "hooks[0].on_error", "log", false},
	{"listed: method of a webhook", listed("{name: a, on: [error], action: {type: webhook, method: PUT, url: 'https://a.example'}}"), "hooks[0].action.method", "always a POST", false},
	{"listed: auth", listed("{name: a, on: [error], action: {type: http, url: 'https://a.example', auth: basic}}"), "hooks[0].action.auth.type", "gcp-default", false},
	{"listed: fail without blocking", listed("{name: a, on: [pre-stop], on_error: fail, action: {type: webhook, url: 'https://a.example'}}"), "hooks[0].on_error", "log, continue, retry", true},
	{"listed: blocking event", listed("{name: a, on: [model-start, session-end], blocking: true, action: {type: webhook, url: 'https://a.example'}}"), "hooks[0].on[1]", "nothing waits", true},
	{"listed: command after the claim", listed("{name: a, on: [session-end], action: {type: script, command: [a]}}"), "hooks[0].on", "no event for which a command can run", true},
	{"listed: without action", listed("{name: a, on: [error]}"), "hooks[0].action", "is missing", false},
	{"both names of hooks", fileWith("hooks: {}\nlifecycle_hooks: []"), "lifecycle_hooks", "another name", false},
	{"not JSON in options", atPoint("{builtin: log, with: {a: .inf}}"), "hooks.post_claim[0].with.a", "JSON", true},
}

// One mistake in the hooks is one error, with the right field. The schema finds
// it as well, if a schema can.
func TestParseRejectsHooks(t *testing.T) {
	_, err := Parse([]byte(atPoint("{http: {url: 'https://a.example', capture: {"+captures(maxCaptures)+"}}}")), "w.yaml")
	require.NoError(t, err)
	s := compileSchema(t)
	for _, c := range invalidHookFiles {
		t.Run(c.name, func(t *testing.T) {
			requireOneError(t, c.source, c.field, c.wantText)
			if doc, ok := asJSON([]byte(c.source)); ok {
				require.Equal(t, !c.parseOnly, s.Validate(doc) != nil, "%s", c.source)
			}
		})
	}
}
