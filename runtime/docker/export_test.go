package docker

// ShimVolume is the name of the volume with the shim.
func (r *Runtime) ShimVolume() string { return r.shim.volume() }
