package delivery

// ExactDelays removes the randomness from the delays between attempts.
func ExactDelays() { retryDelay.Rand = func() float64 { return 0.5 } }
