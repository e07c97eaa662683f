// Package workqueue executes a function for keys: a pool to be checked, a
// container to be destroyed, a claim to be released. What is to be done for a
// key is left to the function, which reads the record when its turn has come.
//
// It promises that
//
//   - one execution per key runs at a time. A key that is added while it is
//     executed is executed once more, and one that waits is not added twice: the
//     earliest of its times counts;
//   - a key whose execution fails is retried with backoff until it succeeds, and
//     not earlier, however often it is added. Forget ends that;
//   - groups take turns, and none has more executions than its limit, so a group
//     with many or slow keys does not delay the others;
//   - a panic is a failure of its key, and is logged;
//   - nothing is kept of a key that neither waits nor is executed.
//
// Keys are in memory only. A source adds them again after a restart: a list of
// records, or a timer. A Loop is such a source: it asks when the next record is due,
// and sleeps until then.
package workqueue
