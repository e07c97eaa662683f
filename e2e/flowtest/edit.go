package flowtest

import (
	"fmt"
	"strings"
)

// Edit returns a workload file with texts replaced: of each pair, the first
// occurrence of the first text by the second. It panics when there is none, so
// that no test uses a workload that it did not mean to.
func Edit(source string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(source, pairs[i]) {
			panic(fmt.Sprintf("there is no %q to replace in:\n%s", pairs[i], source))
		}
		source = strings.Replace(source, pairs[i], pairs[i+1], 1)
	}
	return source
}
