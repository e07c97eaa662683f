package transport

import "time"

// SetClock sets the clock for certificates of clients. There must be no request yet.
func (t *TLS) SetClock(now func() time.Time) { t.now = now }
