package backend

import (
	"strconv"
	"strings"
)

// FormatPorts returns the ports for the engine's record of a container.
func FormatPorts(ports []int) string {
	texts := make([]string, len(ports))
	for i, p := range ports {
		texts[i] = strconv.Itoa(p)
	}
	return strings.Join(texts, ",")
}

// ParsePorts reads the output of FormatPorts and omits everything else.
func ParsePorts(text string) []int {
	ports := []int{}
	for field := range strings.SplitSeq(text, ",") {
		if p, err := strconv.Atoi(field); err == nil {
			ports = append(ports, p)
		}
	}
	return ports
}
