// Package soak lets tenants that behave badly use real containers for as long
// as one likes, while sessions are cut, containers and servers killed and the
// engine is lost, and then holds Hostler to what it promises: nothing leaked,
// nothing shared, every hook that began with one end.
//
// Some tenants are hostile: they perform the attacks of package runtimetest at
// random times. Honest ones among them look for what others left. In the last
// quarter there is no trouble but theirs, and honest tenants' claims have to
// succeed.
//
// It does at random what package e2e does on purpose. How long and how random
// are the environment's to say: SOAK is a duration, SOAK_SEED a number.
package soak
