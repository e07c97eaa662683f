package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
)

// checkUser rejects a user that cannot enter the directories of containers: its
// programs would find no working directory.
func (r *Runtime) checkUser(user string) error {
	name, _, _ := strings.Cut(user, ":")
	if name == "" || name == "0" || name == "root" || name == strconv.Itoa(os.Geteuid()) {
		return nil
	}
	dir := closedDirectory(r.dir)
	if dir == "" {
		return nil
	}
	return &runtime.SpecError{
		Field:  "user",
		Reason: fmt.Sprintf("is %q: on the process backend, programs run in the server's data directory, and %s is closed to other users", user, dir),
		Hint:   "remove user, which protects nothing there, or use Docker or Kubernetes (serve --runtime)",
	}
}

// closedDirectory returns the first of a directory and those around it that only
// its owner can enter, or "".
func closedDirectory(dir string) string {
	for {
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&0o011 == 0 {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
