package runtime

import (
	"fmt"
	"strconv"
)

// Protocols are the versions of the protocol to the program in its containers
// that a server speaks. A container has one version for as long as its program
// runs: that of the server which started it, which the engine's record of the
// container tells. Nothing in a container can change it.
type Protocols struct {
	Oldest  int // from 1
	Current int // of the containers that the server makes
}

// Format is what the engine's record of a new container says. Its form is the
// same for every version.
func (p Protocols) Format() string { return strconv.Itoa(p.Current) }

// Parse reads what Record wrote, perhaps that of another version. What no
// server writes is ErrTainted: nobody knows how to speak to the container. A
// version that is not spoken is returned with the error of Check.
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

// Check is nil for a version that is spoken, else ErrNewer or ErrTooOld.
func (p Protocols) Check(version int) error {
	switch {
	case p.IsNewer(version):
		return fmt.Errorf("%w: its protocol version is %d, and this server speaks up to %d", ErrNewer, version, p.Current)
	case p.IsTooOld(version):
		return fmt.Errorf("%w: its protocol version is %d, and this server speaks from %d", ErrTooOld, version, p.Oldest)
	}
	return nil
}

// IsNewer reports whether a version is a newer server's.
func (p Protocols) IsNewer(version int) bool { return version > p.Current }

// IsTooOld reports whether a version is older than those that are spoken.
func (p Protocols) IsTooOld(version int) bool { return version < p.Oldest }
