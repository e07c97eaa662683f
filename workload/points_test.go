package workload

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
)

// The default and the limit of a hook's timeout are those of its point. The
// documented ones, which editors show, are those of every point without its own.
func TestTimeoutsOfPoints(t *testing.T) {
	for _, p := range hooks.Points() {
		action := "command: [a]"
		if p.NotStarted {
			action = "builtin: log"
		}
		w, err := Parse([]byte(fileWith(fmt.Sprintf("hooks: {%s: [{%[2]s}, {%[2]s, timeout: %[3]s}]}", p.Point, action, p.MaxTimeout))), "")
		require.NoError(t, err, p.Point)
		require.Equal(t, p.DefaultTimeout, w.Hooks[p.Point][0].Timeout)
		require.Equal(t, p.MaxTimeout, w.Hooks[p.Point][1].Timeout)
		_, err = Parse([]byte(fileWith(fmt.Sprintf("hooks: {%s: [{%s, timeout: %s}]}", p.Point, action, p.MaxTimeout+time.Second))), "")
		require.ErrorContains(t, err, "more than", p.Point)
	}

	var list []hookFile
	d, n := &decoder{nodes: map[string]*yaml.Node{}, invalid: map[string]bool{}}, &yaml.Node{}
	require.NoError(t, yaml.Unmarshal([]byte("[{command: [a]}, {command: [a], timeout: 3s}]"), n))
	d.read(n.Content[0], "hooks", reflect.ValueOf(&list).Elem(), hookRule(hooks.PointRule{DefaultTimeout: time.Second, MaxTimeout: 2 * time.Second}))
	require.Equal(t, time.Second, time.Duration(list[0].Timeout))
	require.Len(t, d.errs, 1)
	require.Equal(t, "is 3s, more than 2s", d.errs[0].Message)

	for _, f := range fieldsOf(reflect.TypeFor[hookFile]()) {
		if f.name == "timeout" {
			require.Equal(t, hookRule(hooks.PointRule{DefaultTimeout: hooks.DefaultTimeout, MaxTimeout: hooks.MaxTimeout}).keys["timeout"], f.rule)
		}
	}
}
