package variables

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each name and each alias stands for one variable, and can be written in a
// template and a condition.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Names() {
		require.NotEmpty(t, r.When, r.Name)
		require.NotEmpty(t, r.Type, r.Name)
		require.Regexp(t, `^[A-Z].*\.$`, r.Doc)
		require.Contains(t, []Class{Trusted, Untrusted}, r.Class)
		for _, name := range append([]string{r.Name}, r.Aliases...) {
			require.False(t, seen[name], name)
			seen[name] = true
			require.Regexp(t, `^[A-Z]+(_[A-Z]+)*$`, name)
			found, ok := RuleOf(name)
			require.True(t, ok)
			require.Equal(t, r, found)
		}
	}
	_, ok := RuleOf("container_id")
	require.False(t, ok)
	for want, names := range map[Type]string{
		Text:    "AGENT_ID TASK SWARM_ID WAIT_PHASE BLOCKING_TYPE PHASE",
		Number:  "ITERATION TIMEOUT_THRESHOLD WAIT_DURATION TIMEOUT_DURATION EXCEEDED_BY EXIT_CODE ATTEMPT EVENT_SEQ LIMIT_COUNT",
		JSON:    "SIGNAL_DATA EVENT_DATA",
		Boolean: "OOM_KILLED",
	} {
		for _, name := range strings.Fields(names) {
			rule, ok := RuleOf(name)
			require.True(t, ok, name)
			require.Equal(t, want, rule.Type, name)
		}
	}
}

// The names of the hook systems whose files are read have the class that the
// documentation promises.
func TestNamesOfOtherForms(t *testing.T) {
	for name, want := range map[string]string{
		"AGENT_ID": "CONTAINER_ID", "AGENT_SLUG": "CONTAINER_ID", "AGENT_NAME": "CONTAINER_ID", "TEMPLATE_NAME": "WORKLOAD_NAME", "GROVE_NAME": "WORKLOAD_ID",
		"GROVE_PATH": "WORKLOAD_ID", "SWARM_ID": "WORKLOAD_ID", "HARNESS_NAME": "IMAGE", "HARNESS_CONFIG": "IMAGE", "BLOCKING_TYPE": "WAIT_TYPE", "HOOK_NAME": "HOOK",
	} {
		r, ok := RuleOf(name)
		require.True(t, ok, name)
		require.Equal(t, want, r.Name)
	}
	for _, name := range []string{
		"TASK", "TASK_SUMMARY", "ASSISTANT_TEXT", "TOOL_NAME", "ERROR_MESSAGE", "ACTIVITY", "PREVIOUS_ACTIVITY", "LIMIT_NAME", "LIMIT_COUNT", "SIGNAL_DATA",
		"WAIT_TYPE", "ITERATION", "EVENT_MESSAGE", "EVENT_DATA",
	} {
		r, ok := RuleOf(name)
		require.True(t, ok, name)
		require.Equal(t, Untrusted, r.Class, name)
	}
}
