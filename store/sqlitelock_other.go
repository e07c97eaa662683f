//go:build !unix

package store

import (
	"fmt"
	"io"
	goruntime "runtime"
)

// lock refuses: without a lock that ends with its process, two servers could
// write one database.
func lock(string) (io.Closer, error) {
	return nil, fmt.Errorf("a server cannot run on %s: it has no flock", goruntime.GOOS)
}
