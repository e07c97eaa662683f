package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// crashing is a workload whose main process ends without a variable.
const crashing = `id: hello
image: none
command: [sh, -c, 'test -n "$APP_CONFIG" || { echo no config found; exit 3; }; touch ready; exec sleep infinity']
healthcheck: { test: [CMD, test, -e, ready], interval: 1s, start_period: 20s }
pool: { min_idle: 0, max_size: 2 }
`

// failingHook is a workload whose claims fail.
const failingHook = `id: review
image: none
command: [sleep, infinity]
pool: { min_idle: 1, max_size: 1 }
hooks:
  post_claim:
    - { name: clone, script: "echo cloning; sleep 0.5; echo permission denied >&2; exit 7" }
`

const web = `id: web
image: none
command: [sleep, infinity]
pool: { min_idle: 1, max_size: 2 }
`

var tours = map[string]tour{
	"my-container-does-not-start": {
		title: "My container does not start",
		intro: "The main process of this workload prints why it cannot run, and exits.",
		files: map[string]string{"crash.yaml": crashing},
		steps: []tourStep{
			{run: "cat crash.yaml"},
			{run: "hostler apply -f crash.yaml"},
			{text: "The claim fails, and names the cause first: what the process did, and the last lines that it printed.", run: "hostler claim hello --tenant ada"},
			{text: "The pool shows the same.", await: client.EventContainerDestroyed, run: "hostler get pools"},
			{text: "All about the pool, with its events and what to do:", run: "hostler describe pool hello"},
			{text: "The container is gone, but its output is kept. The end of an id is enough.", run: "hostler logs --container ID"},
			{text: "The doctor finds it, too.", run: "hostler doctor"},
			{text: "`hostler try` does it without the server: one container, and everything is removed. These are the lines of its output that matter.",
				run: `hostler try --runtime process --data ./trials crash.yaml | grep -e 'main |' -e '==>'`},
			{text: "With the variable it starts, and the pool is no longer failing.", run: `sed -i 's/^command/environment: { APP_CONFIG: production }\ncommand/' crash.yaml`},
			{run: `hostler try --runtime process --data ./trials crash.yaml | grep -e '==>' -e 'all of it'`},
			{run: "hostler apply -f crash.yaml"},
			{run: "hostler claim hello --tenant ada"},
			{run: "hostler doctor"},
		},
	},
	"what-happened": {
		title: "What happened to this claim",
		intro: "The hook of this workload fails for each claim.",
		files: map[string]string{"review.yaml": failingHook},
		steps: []tourStep{
			{run: "cat review.yaml"},
			{run: "hostler apply -f review.yaml"},
			{text: "The error names the hook, what it printed, and where the rest is.", await: client.EventContainerCreated, run: "hostler claim review --tenant ada"},
			{run: "hostler logs ID"},
			{text: "Which claims have failed? `-o name` prints the ids alone, for other commands.", await: client.EventContainerDestroyed, run: "hostler get claims --state failed"},
			{run: "hostler get claims --state failed -o name"},
			{text: "All about one of them. The end of its id is enough, if no other id has it.", run: "hostler describe claim ID"},
			{text: "The last events about claims, and the one about the hook:", run: "hostler events -n 2 --type claim"},
			{run: "hostler events -n 1 --type hook.failed"},
		},
	},
	"metrics-and-alerts": {
		title: "Metrics and alerts",
		needs: []string{"curl"},
		intro: "Each pool has all its gauges from the beginning, zeros included, so that an alert can compare them. [metrics.md](../metrics.md) lists them, and\n[alerts.md](../alerts.md) the alerts.",
		files: map[string]string{"web.yaml": web, "crash.yaml": crashing},
		steps: []tourStep{
			{run: "hostler apply -f web.yaml"},
			{text: "This is one that does not start.", await: client.EventContainerCreated, run: "hostler apply -f crash.yaml"},
			{run: "hostler claim hello --tenant ada"},
			{text: "The first is fine:", await: client.EventContainerDestroyed,
				run: `curl -sS $HOSTLER_SERVER/metrics | grep -E '^hostler_(pool|containers|claims|waiting|oldest|stuck).*"web"'`},
			{text: "This one waits before the next attempt. After five failures it is `failing`, and five minutes later the alert `HostlerPoolFailing` fires.", run: `curl -sS $HOSTLER_SERVER/metrics | grep -E '^hostler_pool_(fill_state|creation).*"hello"'`},
			{text: "What the server depends on has a gauge, too.", run: `curl -sS $HOSTLER_SERVER/metrics | grep -E '^hostler_(leader|engine_up|database_up|workload_files_invalid|workloads) '`},
			{text: "The doctor names the cause.", run: "hostler doctor | grep -A 1 error"},
		},
	},
	"i-changed-a-file": {
		title:   "I changed a file and nothing happened",
		intro:   "The server follows a directory of workload files. This is one of them.",
		files:   map[string]string{"workloads/web.yaml": web},
		follows: true,
		needs:   []string{"curl"},
		steps: []tourStep{
			{await: client.EventContainerCreated, run: "cat workloads/web.yaml"},
			{text: "A change with a slip:", run: "sed -i 's/^pool:/pools:/' workloads/web.yaml"},
			{text: "What was applied before stays in use. The doctor has the reason:", await: client.EventWorkloadRejected, run: "hostler doctor"},
			{text: "It is an event, too, and a metric.", run: "hostler events --type workload.rejected"},
			{run: `curl -sS $HOSTLER_SERVER/metrics | grep '^hostler_workload_files_invalid'`},
			{text: "`hostler validate` finds it before the server does, and needs none.", run: "hostler validate workloads"},
			{text: "Corrected, it is accepted.", run: "sed -i 's/^pools:/pool:/' workloads/web.yaml"},
			{await: client.EventWorkloadAccepted, run: "hostler events --type workload.accepted"},
			{text: "What would the next change do? With `--exit-code`, `hostler diff` has exit status 1 if something would.",
				run: "sed 's/infinity/1d/; s/max_size: 2/max_size: 5/' workloads/web.yaml >web.yaml"},
			{run: "hostler diff --exit-code -f web.yaml"},
			{run: "hostler apply --dry-run -f web.yaml"},
		},
	},
	"from-my-program": {
		title: "From my program",
		intro: "The workload `greeter` has a program that serves HTTP on port 8080. [from-claim-to-request.md](../from-claim-to-request.md) has the same in Go, Python and TypeScript.",
		needs: []string{"curl", "jq"},
		begin: applyGreeter,
		steps: []tourStep{
			{run: "api=$HOSTLER_SERVER/v1"},
			{run: "json='Content-Type: application/json'"},
			{text: "`wait: 0` does not wait. No container is ready, so this is 503, with `Retry-After` and a code for programs.",
				run: `curl -sS -i $api/claims -H "$json" -d '{"workload": "greeter", "tenant": "ada", "wait": 0}' | grep -E '^(HTTP|Retry-After|\{)'`},
			{text: "With a wait, the answer comes when the container is ready.", run: `claim=$(curl -sS $api/claims -H "$json" -d '{"workload": "greeter", "tenant": "ada", "wait": "60s"}' | jq -r .id)`},
			{run: "curl -sS $api/claims/$claim | jq '{state, tenant, endpoint}'"},
			{text: "A request to the program goes through the server, from anywhere.", run: "curl -sS $api/claims/$claim/ports/8080/hello | head -n 1"},
			{text: "Touch it while it is used, and release it at the end.", run: "curl -sS -X POST $api/claims/$claim/touch | jq -r .state"},
			{run: "curl -sS -X POST $api/claims/$claim/release | jq -r .state"},
			{text: "A touch of a claim that is over is 409: stop, the container is not yours.", run: "curl -sS -X POST $api/claims/$claim/touch | jq"},
		},
	},
}

// applyGreeter applies a workload whose program serves HTTP on a port that is free, and
// is shown as 8080.
func applyGreeter(t *testing.T, s *server, r *tourRecorder) {
	port := freePort(t)
	text := strings.Replace(workload(t, s.rt, "greeter", fmt.Sprintf("ports: [%d]\npool: { min_idle: 0, max_size: 1 }\n", port)),
		", idle]", fmt.Sprintf(", web, \"127.0.0.1:%d\"]", port), 1)
	text += fmt.Sprintf("healthcheck: { test: [CMD, bash, -c, \"exec 3<>/dev/tcp/127.0.0.1/%d\"], interval: 1s, start_period: 20s }\n", port)
	_, err := s.Apply(t.Context(), "greeter", []byte(text))
	require.NoError(t, err)
	r.port = fmt.Sprint(port)
}
