package shim

// IsOpen says whether the session is connected, as far as is known: then the
// program it speaks to has run all the time.
func (s *Session) IsOpen() bool {
	c, err := s.current()
	return c != nil && err == nil
}
