package credential

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

const maxBindingsFile = 1 << 20

// fileBinding is a binding as a file has it.
type fileBinding struct {
	Name        string                      `yaml:"name"`
	Kind        auth.SubjectKind            `yaml:"kind"`
	Issuer      string                      `yaml:"issuer"`
	Subject     *activity.Pattern           `yaml:"subject"`
	Claims      map[string]activity.Pattern `yaml:"claims"`
	Role        auth.Role                   `yaml:"role"`
	Tenants     []activity.Pattern          `yaml:"tenants"`
	Workloads   []activity.Pattern          `yaml:"workloads"`
	TenantClaim string                      `yaml:"tenant_claim"`
}

// parseBindings reads a list of bindings as YAML. An empty file has none. A field
// that bindings do not have is an error with its line.
func parseBindings(content []byte) ([]Binding, error) {
	var nodes []yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(content))
	if err := d.Decode(&nodes); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if d.Decode(new(yaml.Node)) != io.EOF {
		return nil, errors.New("the file has more than one document")
	}
	strict := yaml.NewDecoder(bytes.NewReader(content))
	strict.KnownFields(true)
	var list []fileBinding
	if err := strict.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(list) != len(nodes) {
		return nil, errors.New("an item of the list is empty")
	}
	if len(list) > MaxBindings {
		return nil, fmt.Errorf("the file has more than %d bindings", MaxBindings)
	}
	bindings, names := make([]Binding, 0, len(list)), map[string]int{}
	for i, f := range list {
		b := Binding{
			Name: f.Name, Kind: f.Kind, Issuer: f.Issuer, Subject: f.Subject, Claims: f.Claims, Role: f.Role,
			Tenants: f.Tenants, Workloads: f.Workloads, TenantClaim: f.TenantClaim, Source: File,
		}
		line := nodes[i].Line
		if err := b.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if other, ok := names[b.Name]; ok {
			return nil, fmt.Errorf("line %d: line %d has a binding of the same name", line, other)
		}
		names[b.Name] = line
		bindings = append(bindings, b)
	}
	return bindings, nil
}

// useBindingsFile has the bindings of a file in use.
func (s *Service) useBindingsFile(content []byte) error {
	list, err := parseBindings(content)
	if err != nil {
		return err
	}
	bindings, err := s.newBindings(list)
	if err != nil {
		return err
	}
	s.change(func(m *memory) { m.fileBound = bindings })
	return nil
}
