package wait

import "time"

// SetListInterval changes the time between two lists of the open waits. It is called
// before Run.
func (s *Service) SetListInterval(d time.Duration) { s.every = d }
