// Package membership decides which of several servers on one database acts: it
// keeps this server's lease, elects the leader, and takes over from servers
// whose leases expired.
//
// # States of a server
//
//	starting ──Register─→ member ──Campaign─→ leader ──OnLead returned, Resign─→ member ──Leave─→ left
//	                        │                   │
//	                        └───────────────────┴── fenced, or replaced as leader ─→ exits at once
//
// A server registers, and renews its lease every HeartbeatInterval (Renew). An
// attempt that is not answered is given up and repeated, so that a connection
// that became silent does not cost the lease. It campaigns after each renewal
// until it leads (Run). The campaign that replaces a leader whose leadership has
// expired fences it in the same transaction. A renewal confirms that this server
// leads, in case that the answer came late. The new leader then fences every
// expired server, and takes over their work; only then OnLead begins. The renewal
// of a leader renews its leadership in the same transaction, or neither. So when
// another server becomes leader because a leadership expired, the lease of the
// former leader has expired too.
//
// A server that leaves resigns and is fenced in one transaction, after its last
// change: when another one leads, nothing of its work can write any more.
//
// A server that is fenced exits at once, as if it were killed: cleanup would
// damage the work of the server that took over. A leader that learns that
// another server leads exits in the same way.
//
// # The trust window
//
// All times in the database are the database's: it reads its own clock in the
// transaction that renews, and in the one that compares. A server measures only
// how long ago its last successful renewal began, by its own clocks. The two
// never meet, so a server's clock may be wrong.
//
//	server A     renewal                                   A trusts its lease from
//	(own clock)  begins  answered                          the begin of the renewal
//	               ├────────┤
//	               ├──── trusted: A uses the engine ────┤──── blocked: A does not ───→
//	               0                                 LeaseTime
//	database           ├────────── not expired ───────────┤── TakeoverMargin ──┤
//	(its clock)        renewed                         +LeaseTime              │
//	server B                                                                   ├─ may fence A
//
// The renewal is committed after it began, so the upper line always ends first,
// by TakeoverMargin or more. A request to the engine that was sent at the last
// moment has the margin to arrive. The elapsed time of A is the greater of what
// its monotonic clock and its wall clock show: the former stops while the machine
// is suspended, the latter can be set.
//
// The database rejects every change of a fenced server, because the fence raises
// the epoch in the server's row, which each change checks and locks. An engine
// does not know epochs. The lease protects it (Member.Guard).
//
// # Grace
//
// During an outage of the database no server can renew. Therefore a server does
// not judge others for graceTime after it registered, after a gap between its own
// renewals, and after the database's clock jumped forward: it neither fences an
// expired server nor becomes leader in place of an expired one. What needs no
// judgment is possible at once: a leadership that is free, and the work of a
// server that left. A judgment is of the time before the request: one that was on
// its way during an outage fences no server that renewed since.
//
// # Limits
//
// The lease is checked before a call of the engine, not during it. A process that
// is stopped between the check and the request sends the request late; what
// matters carries a fence of its own (package runtime). A virtual machine that is
// paused without its clocks noticing trusts its lease until its next renewal. A
// server whose wall clock is set back while its machine is suspended does not
// notice the suspension.
//
// A database that loses commits which it has acknowledged, in a failover to an
// asynchronous standby, may lose a fence or a change of the leader. A leader that
// is no longer on record exits with its next renewal. A server that was fenced,
// and did not learn of it before the failover, is no longer fenced.
package membership
