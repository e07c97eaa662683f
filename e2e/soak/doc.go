// Package soak lets tenants that behave badly use real containers for as long
// as one likes, while sessions are cut, containers killed and the engine is
// lost, and then holds Hostler to what it promises: nothing leaked, nothing
// shared, every hook that began with one end.
//
// It does at random what package e2e does on purpose. How long and how random
// are the environment's to say: SOAK is a duration, SOAK_SEED a number.
package soak
