package activity

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The subjects of the events that tenants' programs publish.
const (
	AgentSubject  = "agent"
	CustomSubject = "custom"
)

// MaxTypeLength bounds the type of an event that a tenant's program publishes, as
// it is stored.
const MaxTypeLength = 128

// The priorities of the events that tenants' programs publish.
const (
	MinPriority     = 0
	DefaultPriority = 7
	MaxPriority     = 9
)

// ErrType indicates that a tenant's program must not publish an event of a type.
var ErrType = errors.New("invalid event type")

// typePattern matches words with dots between them.
var typePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$`)

// resources are the subjects of events of Hostler, also of later versions.
var resources = func() []string {
	all := []string{
		"event", "exec", "file", "gate", "key", "log", "memory", "port", "replica", "request", "run", "secret", "server",
		"signal", "snapshot", "tenant", "wait",
	}
	for _, t := range types {
		if subject := t.Subject(); subject != AgentSubject {
			all = append(all, subject)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}()

// Subject returns what the event is about: the part before the first dot.
func (t Type) Subject() string {
	subject, _, _ := strings.Cut(string(t), ".")
	return subject
}

// IsPublished reports whether events of the type are published by tenants'
// programs: it is dotted words of which the first is agent or custom.
func IsPublished(t Type) bool {
	subject := t.Subject()
	return (subject == AgentSubject || subject == CustomSubject) && string(t) != subject &&
		len(t) <= MaxTypeLength && typePattern.MatchString(string(t))
}

// PublishedType returns the type that an event gets which a tenant's program
// publishes under a name. A name that begins with neither agent nor custom is one
// of custom. What is about a resource of Hostler is ErrType.
func PublishedType(name string) (Type, error) {
	t := Type(name)
	switch subject := t.Subject(); {
	case len(name) > MaxTypeLength:
		return "", fmt.Errorf("%w: it is longer than %d characters", ErrType, MaxTypeLength)
	case !typePattern.MatchString(name):
		return "", fmt.Errorf("%w %.100q: it takes lower-case words of a-z, 0-9, _ and - with dots between them, such as agent.task_completed", ErrType, name)
	case slices.Contains(resources, subject):
		return "", fmt.Errorf("%w %q: only the server records events about %s; publish custom.%s", ErrType, name, subject, name)
	case t == AgentActivityChanged:
		return "", fmt.Errorf("%w %q: the server records it when the activity of the claim changes; set that", ErrType, name)
	case name == AgentSubject || name == CustomSubject:
		return "", fmt.Errorf("%w %q: add what has happened, such as %s.ready", ErrType, name, name)
	case subject != AgentSubject && subject != CustomSubject:
		t = CustomSubject + "." + t
	}
	if !IsPublished(t) {
		return "", fmt.Errorf("%w: it is longer than %d characters", ErrType, MaxTypeLength)
	}
	return t, nil
}
