package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
)

// readInit returns the recorded init process of a container; ok is false if none
// was ever started.
func (p containerPaths) readInit() (id proctree.ID, ok bool, err error) {
	b, err := os.ReadFile(p.record)
	if errors.Is(err, os.ErrNotExist) {
		return id, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &id)
	}
	if err != nil {
		return id, false, unavailableError("read which process is "+p.id, err)
	}
	return id, true, nil
}

// runningInit returns the init process if it is running.
func (p containerPaths) runningInit() (proctree.ID, error) {
	id, ok, err := p.readInit()
	if err != nil {
		return id, err
	}
	if !ok || !id.IsAlive() {
		return id, fmt.Errorf("%w: %q", runtime.ErrNotRunning, p.id)
	}
	return id, nil
}

// sigkillExitCode is the exit code of a main process whose exit was not recorded.
const sigkillExitCode = 128 + 9

// exitCode returns the exit code of the main process.
func (p containerPaths) exitCode() int {
	b, err := os.ReadFile(p.exitFile())
	if err != nil {
		return sigkillExitCode
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return sigkillExitCode
	}
	return code
}

// record is the spec of a container and the protocol version of its shim.
type record struct {
	runtime.Spec
	Protocol string `json:"protocol"` // the version of its shim, see runtime.Protocols.Format
}

func (p containerPaths) readRecord() (record, error) {
	var c record
	b, err := os.ReadFile(p.specFile())
	if errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("%w: %q", runtime.ErrNotFound, p.id)
	}
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return c, unavailableError("read the record of "+p.id, err)
	}
	return c, nil
}

// readCompatible is read for a container whose protocol this server supports. It
// also returns the version in the container's record.
func (p containerPaths) readCompatible() (record, int, error) {
	c, err := p.readRecord()
	if err != nil {
		return c, 0, err
	}
	version, err := shim.Protocols().Parse(c.Protocol)
	return c, version, err
}

func (p containerPaths) writeRecord(c record) error {
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the record of %s: %w", p.id, err)
	}
	if err := os.WriteFile(p.specFile()+".new", b, 0o600); err != nil {
		return unavailableError("write the record of "+p.id, err)
	}
	if err := os.Rename(p.specFile()+".new", p.specFile()); err != nil {
		return unavailableError("write the record of "+p.id, err)
	}
	return nil
}
