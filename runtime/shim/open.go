package shim

// IsOpen reports whether the session is connected, as far as this end knows. If
// so, the program at the other end has been running since it was opened.
func (s *Session) IsOpen() bool {
	c, err := s.current()
	return c != nil && err == nil
}
