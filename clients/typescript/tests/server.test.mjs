// The tests with a server are in one process: they share a port.
import "./life.mjs";
import "./readme.mjs";
