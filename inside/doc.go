// Package inside answers what programs in containers ask of the server, and keeps
// the sessions on which they ask.
//
// A request comes from a container, not from a user with a key: what it may do
// follows from the claim that the container has, and from nothing that the
// program says. So the package promises that
//
//   - a request acts for the active claim of its container only. One that its
//     container received for another claim, or that arrives when the claim is no
//     longer active, is refused. What a handler changes, it changes in a
//     transaction that finds the claim active: the claim may end at any time;
//   - while a claim is pending or releasing, only the processes of the hook that its
//     flow runs then may ask for it, until the hook is over;
//   - a process of a hook may ask only for what its row permits;
//   - some server has a session with the container of each active claim: the one
//     that made it active, later the one that adopted it. It opens another one
//     when that is lost;
//   - a request without an answer, because a session or a server was lost, may be
//     sent again with the same ID, to any server.
//
// To add a request: a row of the table (Options.Requests), and a command in
// cmd/hostler-shim. How a request travels, and what bounds its size, rate and
// number, is in runtime.Requester.
package inside
