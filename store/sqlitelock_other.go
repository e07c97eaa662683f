//go:build !unix

package store

import (
	"fmt"
	"io"
	goruntime "runtime"
)

// lockFile returns an error, because without a lock that ends with its process
// two servers could write one database.
func lockFile(string) (io.Closer, error) {
	return nil, fmt.Errorf("a server cannot run on %s: it has no flock", goruntime.GOOS)
}
