// Package soak runs misbehaving tenants in real containers for a given time,
// while it cuts sessions, kills containers and servers, and makes the engine
// unavailable. It then checks what Hostler promises: nothing leaks, nothing is
// shared, and every hook that started has ended once.
//
// Some tenants are hostile: they perform the attacks of package runtimetest at
// random times. Honest tenants among them search for traces of others. In the
// last quarter there are no disruptions but the attacks, and claims of honest
// tenants have to succeed.
//
// It does at random what package e2e does in a fixed order. The environment
// variable SOAK is the duration, SOAK_SEED the seed.
package soak
