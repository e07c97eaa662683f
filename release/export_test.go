package release

// Once is once, for tests of what a caller with an old record may do.
var Once = (*Service).once
