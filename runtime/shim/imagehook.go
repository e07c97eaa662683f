package shim

// The subcommands of the program for the hooks of an image. They are ordinary
// commands of the workload's user.
const (
	// ListImageHooks prints the runtime.ImageHooks of the points that follow it as
	// JSON.
	ListImageHooks = "image-hooks"
	// RunImageHook becomes the file with a SHA-256 and a path that follow it.
	RunImageHook = "image-hook"
)

// ImageHookRefused begins what the program prints to stderr if it does not become
// the file. It then exits with ExitRefused.
const (
	ImageHookRefused = "hostler-shim: image hook: "
	ExitRefused      = 125
)
