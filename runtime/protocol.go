package runtime

import (
	"fmt"
	"strconv"
)

// Protocols are the versions that a server supports of the protocol to the
// program in its containers. A container has one version for as long as its
// program runs: that of the server which started it. The engine's record of the
// container has the version. Nothing in a container can change it.
type Protocols struct {
	Oldest  int // from 1
	Current int // of the containers that the server creates
}

// Format returns the version for the engine's record of a new container. Its
// form is the same for every version.
func (p Protocols) Format() string { return strconv.Itoa(p.Current) }

// Parse reads what Format wrote, possibly that of another version. A text that no
// server writes is ErrTainted, because the container's protocol is unknown. A
// version that is not supported is returned with the error of Check.
func (p Protocols) Parse(record string) (int, error) {
	if record == "" {
		return 0, fmt.Errorf("%w: the engine's record of it has no protocol version", ErrTainted)
	}
	version, err := strconv.Atoi(record)
	if err != nil || version < 1 || strconv.Itoa(version) != record {
		return 0, fmt.Errorf("%w: the engine's record of it has the protocol version %.40q, which no server writes", ErrTainted, record)
	}
	return version, p.Check(version)
}

// Check returns nil for a supported version, else ErrNewer or ErrTooOld.
func (p Protocols) Check(version int) error {
	switch {
	case p.IsNewer(version):
		return fmt.Errorf("%w: its protocol version is %d, and this server supports at most %d", ErrNewer, version, p.Current)
	case p.IsTooOld(version):
		return fmt.Errorf("%w: its protocol version is %d, and this server supports at least %d", ErrTooOld, version, p.Oldest)
	}
	return nil
}

// IsNewer reports whether a version is that of a newer server.
func (p Protocols) IsNewer(version int) bool { return version > p.Current }

// IsTooOld reports whether a version is older than the supported ones.
func (p Protocols) IsTooOld(version int) bool { return version < p.Oldest }
