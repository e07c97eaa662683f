package testenv

import (
	"os"
	"os/exec"
)

// Tags are the build tags of the programs, those of the Makefile.
const Tags = "grpcnotrace,disable_grpc_modules"

// GoBuild returns a command that builds programs as `make build` does, so that
// the tests run what is shipped and nothing is compiled twice. Flags of the
// environment have no effect; later flags in args do.
func GoBuild(args ...string) *exec.Cmd {
	c := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-tags=" + Tags, "-ldflags=-s -w"}, args...)...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	return c
}
