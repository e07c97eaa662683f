package credential

import (
	"context"
	"slices"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

// PutBinding adds or replaces a binding. Errors: ErrInvalid, ErrFirst, ErrFromFile.
func (s *Service) PutBinding(ctx context.Context, b Binding) (_ Binding, created bool, err error) {
	b.Source = Database
	if err := b.check(); err != nil {
		return Binding{}, false, err
	}
	if s.isFileBinding(b.Name) {
		return Binding{}, false, ErrFromFile
	}
	// A binding of tokens makes no operator where tokens are not verified.
	condition := s.condition(ctx, b.Role == auth.Operator && (b.Kind != auth.OIDCSubject || s.o.Tokens != nil))
	data := activity.BindingAppliedData{Binding: b.Name, Kind: string(b.Kind), Role: string(b.Role)}
	created, err = s.o.Store.PutBinding(ctx, b, condition, s.event(ctx, activity.BindingApplied, "binding "+b.Name+" applied", data))
	if err != nil {
		return Binding{}, false, err
	}
	s.applyBindings(ctx, func(all []binding) []binding {
		bound, err := s.newBindings([]Binding{b})
		if err != nil {
			return all // it was encoded when it was stored
		}
		return append(without(all, b.Name), bound...)
	})
	return b, created, nil
}

// DeleteBinding removes a binding. Errors: ErrNotFound, ErrFromFile.
func (s *Service) DeleteBinding(ctx context.Context, name string) error {
	if s.isFileBinding(name) {
		return ErrFromFile
	}
	if namePattern.FindString(name) == "" {
		return ErrNotFound
	}
	event := s.event(ctx, activity.BindingDeleted, "binding "+name+" deleted", activity.BindingDeletedData{Binding: name})
	if err := s.o.Store.DeleteBinding(ctx, name, event); err != nil {
		return err
	}
	s.applyBindings(ctx, func(all []binding) []binding { return without(all, name) })
	return nil
}

// applyBindings has a change of the database in memory. The read that follows keeps
// one that began before the change from undoing it; if the database has become
// unavailable, the next one corrects what differs.
func (s *Service) applyBindings(ctx context.Context, f func([]binding) []binding) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), waitTimeout+readTimeout)
	defer cancel()
	if s.refresh(limited, false) != nil {
		s.change(func(m *memory) { m.bindings = f(m.bindings) })
	}
}

func without(all []binding, name string) []binding {
	return slices.DeleteFunc(slices.Clone(all), func(b binding) bool { return b.Name == name })
}

func (s *Service) isFileBinding(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.ContainsFunc(s.memory.fileBound, func(b binding) bool { return b.Name == name })
}

// Bindings returns the bindings in the order of their names, with those of the file.
func (s *Service) Bindings(ctx context.Context) ([]Binding, error) {
	if s.isStale() {
		if err := s.refresh(ctx, false); err != nil {
			return nil, err
		}
	}
	var list []Binding
	s.mu.RLock()
	s.memory.all(func(b *binding) { list = append(list, b.Binding) })
	s.mu.RUnlock()
	slices.SortStableFunc(list, func(a, b Binding) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Binding returns a binding, or ErrNotFound.
func (s *Service) Binding(ctx context.Context, name string) (Binding, error) {
	list, err := s.Bindings(ctx)
	if err != nil {
		return Binding{}, err
	}
	if i := slices.IndexFunc(list, func(b Binding) bool { return b.Name == name }); i >= 0 {
		return list[i], nil
	}
	return Binding{}, ErrNotFound
}
