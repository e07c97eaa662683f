// Package e2e drives the real programs against real engines, as users and
// operators do: it starts `hostler serve`, asks it over the API and through the
// command line, kills it, and looks at what is left on the machine.
//
// Everything else is left to the packages' own tests: nothing here is about how
// Hostler works, only about what it promises.
package e2e
