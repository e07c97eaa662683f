package runtime

import (
	"fmt"
	"strconv"
	"strings"
)

// DefaultStopSignal asks a main process to exit if neither the workload nor
// its image names another signal: SIGTERM.
const DefaultStopSignal = 15

// The range of the signals that have no name.
const (
	firstRealtime = 34
	lastRealtime  = 64
)

// signalNumbers are Linux's signals by their name without SIG. The table does
// not come from the platform, because a workload file is checked on machines of
// every kind and means the container's signals.
var signalNumbers = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "IOT": 6, "BUS": 7, "FPE": 8, "KILL": 9,
	"USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16, "CHLD": 17,
	"CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24, "XFSZ": 25,
	"VTALRM": 26, "PROF": 27, "WINCH": 28, "IO": 29, "POLL": 29, "PWR": 30, "SYS": 31,
	"RTMIN": firstRealtime, "RTMAX": lastRealtime,
}

// ParseSignal returns the number of a signal, written as in images and in
// Compose: SIGTERM, TERM, SIGRTMIN+3 or 15.
func ParseSignal(text string) (int, error) {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 1 || n > lastRealtime {
			return 0, fmt.Errorf("%q is not a signal: the valid numbers are 1 to %d", text, lastRealtime)
		}
		return n, nil
	}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if n, ok := signalNumbers[name]; ok {
		return n, nil
	}
	for base, sign := range map[string]int{"RTMIN+": 1, "RTMAX-": -1} {
		offset, ok := strings.CutPrefix(name, base)
		n, err := strconv.Atoi(offset)
		if !ok || err != nil {
			continue
		}
		n = signalNumbers[base[:len("RTMIN")]] + sign*n
		if n >= firstRealtime && n <= lastRealtime {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%q is not a signal", text)
}

// StopSignal returns the number of the signal that asks a main process to exit:
// the first of names that is a signal, else DefaultStopSignal.
func StopSignal(names ...string) int {
	for _, name := range names {
		if n, err := ParseSignal(name); err == nil {
			return n
		}
	}
	return DefaultStopSignal
}
