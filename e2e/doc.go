// Package e2e drives the real programs against real engines, as users and
// operators do: it starts `hostler serve`, calls it over the API and through the
// command line, kills it, and checks what is left on the machine.
//
// It tests only what Hostler promises. How Hostler works is left to the
// packages' own tests.
package e2e
