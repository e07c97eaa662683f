// Command box is the program that the suite of package runtimetest runs in
// containers: small, static, and dependent only on the kernel.
//
//	box idle [PORT]        print "idle", wait; on SIGTERM exit with code 0;
//	                       with PORT, answer HTTP there with "ok"
//	box exit N             exit with code N
//	box echo WORD...       print the words and a newline
//	box err WORD...        the same on stderr
//	box repeat TEXT N      print TEXT N times, without a newline
//	box env [NAME]         print one value, or all as NAME=VALUE, sorted
//	box cat                copy stdin to stdout
//	box hash               print the size and the SHA-256 of stdin
//	box both N             print N lines to stdout and N to stderr, in turn
//	box count N            print the numbers below N, of seven digits, a line each
//	box mute               close stdin, stdout and stderr, and wait
//	box terminal           print which streams are a terminal, and its size whenever
//	                       that changes, until stdin ends
//	box shell FILE         print FILE and then stdin, unless the content of FILE
//	                       is in argv or the environment, or can be changed
//	box spin               use CPU time indefinitely
//	box spin-all           the same on all processors at once
//	box backlog            connect indefinitely to a socket that accepts nothing
//	box fill FILE N        create FILE with N bytes
//	box allocate N         reserve N bytes of address space
//	box consume N          use N bytes of memory
//	box child COMMAND...   run a command of box, and exit as a shell does after it
//	box raise              print the limits that it can remove from itself
//	box pwd                print the working directory
//	box id                 print "uid=1 gid=2 groups=2,3 caps=0 nnp=1"
//	box pause MS           wait that many milliseconds
//	box hang [MARKER]      wait indefinitely
//	box ignore-term [M]    the same, ignoring SIGTERM; print "ignoring"
//	box signal SIG         send SIG to itself: KILL, TERM, INT, HUP or STOP
//	box noted FILE         print "noted", wait; append the name of each signal
//	                       that it gets to FILE: TERM, INT, QUIT,
//	                       USR1 or USR2
//	box kill WHO SIG       send SIG or CONT to a pid, to "shim" (the process that
//	                       started box), to "init" (the one that started that),
//	                       or to "main" (HOSTLER_MAIN_PID)
//	box double-fork MARKER leave a grandchild that hangs, exit with 0
//	box setsid MARKER      leave a child in a separate session, exit with 0
//	box farewell TEXT      leave a child that prints TEXT when it gets SIGTERM
//	box forkstorm MARKER   print "ignoring", and fork children that fork, ignoring
//	                       SIGTERM, until killed
//	box ps MARKER          print "PID ARGV" of every running process with MARKER in
//	                       its argv, except itself
//	box state WHO          print the letter of a process's state, such as T
//	box zombies            print the number of children without a wait
//	box stopped            print the number of stopped processes
//	box write FILE TEXT    create FILE and its missing parents
//	box append FILE TEXT   add TEXT to FILE with a single write
//	box read FILE          print FILE
//	box await FILE         wait until there is something in FILE, and print it
//	box remove FILE        remove FILE, or a directory with its content
//	box chmod FILE MODE    change its mode, octal
//	box mkdir DIR MODE     create a directory with exactly that mode
//	box link TARGET FILE   create a symbolic link
//	box rename OLD NEW     rename a file or a directory
//	box exchange A B       exchange two names
//	box flip DIR TARGET    exchange DIR and a link to TARGET, indefinitely
//	box truncate FILE N    set its size
//	box sparse FILE N TEXT create a file of N bytes with TEXT at its beginning and
//	                       its end, and nothing between
//	box ends FILE N        print its first N bytes and its last N
//	box walk DIR           print what is below DIR, in order, a line each: path,
//	                       type, mode with all bits, UID, GID, size, modification
//	                       time in nanoseconds, target, bytes on the disk
//	box mkfifo FILE        create a named pipe
//	box tcp ADDRESS KIND   listen on a TCP address, and treat each connection by
//	                       KIND: echo, mute (read nothing), source (write
//	                       indefinitely), count (read all, then write how many
//	                       bytes), greet (write "hello" and end, then read all,
//	                       and write how many bytes to the file "counted")
//	box web ADDRESS        answer HTTP on a TCP address: /echo with the body, other
//	                       paths with the request; agree to any other protocol,
//	                       and echo
//	box connect ADDRESS    connect to a socket, @NAME for an abstract one
//	box flood ADDRESS N    open N connections to it, repeatedly
//	box listen ADDRESS     listen on a socket, and exit
//	box attack WHO [HOW]   try everything that a process may do to another, and
//	                       print what was permitted; HOW limits it to one
//	box stat FILE          print "TYPE MODE UID GID SIZE", type one of file,
//	                       dir, link, other, mode in octal
//	box rewrite FILE       change its content, keep its size and set its times back
//	box replace FILE       the same, by replacing the file
//	box attribute FILE     set an extended attribute of it
//	box access-list FILE   set an access control list of it
//	box attributes FILE    print the names of both, a line each
//	box scribble FILE      wait for FILE, map it, write to it indefinitely
//	box limit KIND N       limit process "init" to N of that kind, a number
//	box segment            leave a System V segment, a queue and a semaphore
//	box queue NAME         leave a POSIX message queue
//	box spoil              print the flags and the size of the pipe of its stdout,
//	                       change both, and idle
//	box deep DIR N         create N nested directories
//	box many DIR N         create N empty files
//	box ask ID NAME BODY   send a request to the server, and print the response
//	box asker FILE         send one for each content of FILE, NAME BODY, repeatedly
//	box ask-late NAME      send requests and do not wait for the responses
//	box ask-flood NAME N   send N requests, and print how often which error came
//	box ask-garbage TIME   open connections for requests, and send none
//
// A command that fails prints the error on stderr and exits with code 1; a usage
// error exits with code 2. A MARKER does nothing: ps finds processes by it.
package main

import (
	"fmt"
	"os"
)

// command is one row of the list above.
type command struct {
	minArgs int // arguments that it needs
	run     func(args []string) error
}

func commands() map[string]command {
	return map[string]command{
		"idle":        {0, idle},
		"exit":        {1, exit},
		"echo":        {0, echo},
		"err":         {0, echoErr},
		"repeat":      {2, repeat},
		"env":         {0, environment},
		"env-idle":    {1, environmentIdle},
		"cat":         {0, cat},
		"hash":        {0, hash},
		"both":        {1, both},
		"count":       {1, count},
		"mute":        {0, mute},
		"terminal":    {0, terminal},
		"shell":       {1, shell},
		"spin":        {0, spin},
		"spin-all":    {0, spinAll},
		"backlog":     {0, backlog},
		"fill":        {2, fill},
		"allocate":    {1, allocate},
		"consume":     {1, consume},
		"child":       {1, runChild},
		"raise":       {0, raiseLimits},
		"pwd":         {0, pwd},
		"id":          {0, id},
		"pause":       {1, pause},
		"hang":        {0, hang},
		"ignore-term": {0, ignoreTerm},
		"signal":      {1, signalSelf},
		"kill":        {2, kill},
		"double-fork": {1, doubleFork},
		"setsid":      {1, newSession},
		"farewell":    {1, startPrintOnTerm},
		"say-at-term": {1, printOnTerm}, // farewell's child
		"forkstorm":   {1, forkstorm},
		"ps":          {1, ps},
		"own-ps":      {1, ownPS},
		"state":       {1, state},
		"zombies":     {0, zombies},
		"stopped":     {0, stopped},
		"write":       {2, write},
		"append":      {2, appendTo},
		"read":        {1, read},
		"await":       {1, await},
		"noted":       {1, recordSignals},
		"remove":      {1, remove},
		"chmod":       {2, chmod},
		"mkdir":       {2, mkdir},
		"link":        {2, link},
		"rename":      {2, rename},
		"exchange":    {2, exchange},
		"flip":        {2, flip},
		"truncate":    {2, truncate},
		"sparse":      {3, sparse},
		"ends":        {2, ends},
		"walk":        {1, walk},
		"mkfifo":      {1, makeFIFO},
		"tcp":         {2, serveTCP},
		"web":         {1, serveWeb},
		"connect":     {1, connect},
		"flood":       {2, flood},
		"listen":      {1, listen},
		"attack":      {1, attack},
		"stat":        {1, stat},
		"rewrite":     {1, rewrite},
		"replace":     {1, replace},
		"attribute":   {1, attribute},
		"access-list": {1, accessList},
		"attributes":  {1, attributes},
		"scribble":    {1, writeMapped},
		"limit":       {2, limit},
		"segment":     {0, segment},
		"queue":       {1, queue},
		"spoil":       {0, changeStdoutPipe},
		"deep":        {2, nestDirs},
		"many":        {2, makeFiles},
		"ask":         {3, ask},
		"asker":       {1, asker},
		"ask-late":    {1, askLate},
		"ask-flood":   {2, askFlood},
		"ask-garbage": {1, askGarbage},
	}
}

func main() {
	if len(os.Args) < 2 {
		fail(2, "box: no command")
	}
	c, ok := commands()[os.Args[1]]
	args := os.Args[2:]
	if !ok || len(args) < c.minArgs {
		fail(2, "box: no such command, or too few arguments: "+os.Args[1])
	}
	if err := c.run(args); err != nil {
		fail(1, "box: "+err.Error())
	}
}

func fail(code int, message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(code)
}
