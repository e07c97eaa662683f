package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A node accepts pods if it is ready and has no taint; otherwise the error has
// the reason.
func TestSchedulable(t *testing.T) {
	const ready = `"status":{"conditions":[{"type":"Ready","status":"True"}]}`
	for name, test := range map[string]struct{ json, want string }{
		"ready":        {`{` + ready + `}`, ""},
		"new":          {`{}`, "no condition yet"},
		"tainted":      {`{"spec":{"taints":[{"key":"node.kubernetes.io/not-ready"}]},` + ready + `}`, "tainted: node.kubernetes.io/not-ready"},
		"not ready":    {`{"status":{"conditions":[{"type":"Ready","status":"False","message":"no network"}]}}`, "not ready: no network"},
		"another good": {`{"status":{"conditions":[{"type":"DiskPressure","status":"True"}]}}`, "no condition yet"},
	} {
		t.Run(name, func(t *testing.T) {
			var n node
			require.NoError(t, json.Unmarshal([]byte(test.json), &n))
			err := n.schedulable()
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}
