package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim/proctree"
)

// init is the process that is on record for a container; ok is false when none
// was ever started.
func (p place) init() (id proctree.ID, ok bool, err error) {
	b, err := os.ReadFile(p.record)
	if errors.Is(err, os.ErrNotExist) {
		return id, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &id)
	}
	if err != nil {
		return id, false, unavailable("read which process is "+p.id, err)
	}
	return id, true, nil
}

// running is init, when it lives.
func (p place) running() (proctree.ID, error) {
	id, ok, err := p.init()
	if err != nil {
		return id, err
	}
	if !ok || !id.Alive() {
		return id, fmt.Errorf("%w: %q", runtime.ErrNotRunning, p.id)
	}
	return id, nil
}

// killedCode is the exit code of a main process whose end nobody could record.
const killedCode = 128 + 9

// exitCode is how the main process ended.
func (p place) exitCode() int {
	b, err := os.ReadFile(p.exit())
	if err != nil {
		return killedCode
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return killedCode
	}
	return code
}

func (p place) readSpec() (runtime.Spec, error) {
	var spec runtime.Spec
	b, err := os.ReadFile(p.spec())
	if errors.Is(err, os.ErrNotExist) {
		return spec, fmt.Errorf("%w: %q", runtime.ErrNotFound, p.id)
	}
	if err == nil {
		err = json.Unmarshal(b, &spec)
	}
	if err != nil {
		return spec, unavailable("read the spec of "+p.id, err)
	}
	return spec, nil
}
