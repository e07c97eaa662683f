package main

// imageHooks are mutations of the hooks of images.
var imageHooks = []mutation{
	{
		desc: "a link is a hook of the image", test: "TestRefusedImageHooks",
		file: "cmd/hostler-shim/image_hooks.go",
		old:  `	fd, err := openAt(dir, name, flags, 0)`,
		new:  `	fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)`,
	},
	{
		desc: "a hook of the image may belong to the user", test: "TestImageHooksOfTheUser",
		file: "cmd/hostler-shim/image_hooks.go",
		old:  `	case int(st.Uid) == f.uid && f.uid != 0:`,
		new:  `	case int(st.Uid) == f.uid && f.uid < 0:`,
	},
	{
		desc: "a group may change a hook of the image", test: "TestRefusedImageHooks",
		file: "cmd/hostler-shim/image_hooks.go",
		old:  `	case st.Mode&0o022 != 0:`,
		new:  `	case st.Mode&0o002 != 0:`,
	},
	{
		desc: "a pipe is a hook of the image", test: "TestRefusedImageHooks",
		file: "cmd/hostler-shim/image_hooks.go",
		old:  `	case st.Mode&unix.S_IFMT != unix.S_IFREG:`,
		new:  `	case st.Mode&unix.S_IFMT == unix.S_IFDIR:`,
	},
	{
		desc: "a file without the permission is a hook of the image", test: "TestRefusedImageHooks",
		file: "cmd/hostler-shim/image_hooks.go",
		old:  `unix.X_OK) != nil:`,
		new:  `unix.F_OK) != nil:`,
	},
	{
		desc: "an image has any number of hooks", test: "TestImageHooksAreBounded",
		file: "cmd/hostler-shim/image_hooks.go",
		old:  `	if len(l.found.Hooks) == runtime.MaxImageHooks {`,
		new:  `	if len(l.found.Hooks) < 0 {`,
	},
	{
		desc: "the refusals of a listing have no bound", test: "TestImageHooksAreBounded",
		file: "cmd/hostler-shim/image_hooks.go",
		old:  `	if len(l.found.Refused) >= runtime.MaxRefusedImageHooks {`,
		new:  `	if len(l.found.Refused) < 0 {`,
	},
	{
		desc: "the hooks of an image have no order", test: "TestListImageHooks",
		file: "cmd/hostler-shim/image_hooks.go",
		old:  `	slices.Sort(names)`,
		new:  `	slices.Sort(names); slices.Reverse(names)`,
	},
	{
		desc: "a hook of the image that was changed runs", test: "TestRunChangedImageHook",
		file: "cmd/hostler-shim/image_hook.go",
		old:  `	if actual != digest {`,
		new:  `	if actual == "" {`,
	},
	{
		desc: "any file can be run as a hook of the image", test: "TestRunChangedImageHook",
		file: "cmd/hostler-shim/image_hook.go",
		old:  `	if path.Clean(file) != file || `,
		new:  `	if path.Clean(file) == "" && `,
	},
	{
		desc: "a process can change what runs as a hook of the image", test: "TestRunImageHook",
		file: "cmd/hostler-shim/image_hook.go",
		old:  `F_ADD_SEALS, scriptSeals)`,
		new:  `F_ADD_SEALS, 0)`,
	},
	{
		desc: "an interpreter does not get the script of an image", test: "TestRunImageHook",
		file: "cmd/hostler-shim/image_hook.go",
		old:  `unix.F_SETFD, 0)`,
		new:  `unix.F_SETFD, unix.FD_CLOEXEC)`,
	},
	{
		desc: "a hook of an image that the shim refuses has failed with an exit code", test: "TestImageHookCommand",
		file: "runtime/shim/backend/imagehook.go",
		old:  `err == nil && refused {`,
		new:  `err == nil && refused && reason == "" {`,
	},
	{
		desc: "a listing may name any file", test: "TestImageHooks",
		file: "runtime/shim/backend/imagehook.go",
		old:  `|| !h.IsListed() || `,
		new:  `|| `,
	},
	{
		desc: "the hooks of the image come after those of the file", test: "TestImageHooksAreFirst",
		pkg:  "hooks/runner",
		file: "workload/imagehooks.go",
		old:  `slices.Concat(own, w.Hooks[p])`,
		new:  `slices.Concat(w.Hooks[p], own)`,
	},
	{
		desc: "the hooks of an image run without image_hooks", test: "TestImageHooksOfOtherWorkloads",
		file: "hooks/runner/runner.go",
		old:  `	if !w.ImageHooks {`,
		new:  `	if w.ImageHooks && w.Hooks == nil {`,
	},
	{
		desc: "a hook of the image runs whatever its content is", test: "TestImageHooksAreFirst",
		file: "hooks/runner/command.go",
		old:  `		Digest:      p.digest,`,
		new:  ``,
	},
	{
		desc: "a creation continues when the hooks of its image cannot be listed", test: "TestImageHooksAreListedBeforeIdle",
		file: "pool/imagehooks.go",
		old: `	if err != nil {
		return err
	}
	var events`,
		new: `	if err != nil {
		return nil
	}
	var events`,
	},
	{
		desc: "refused hooks of an image are no warning", test: "TestImageHooks",
		file: "pool/imagehooks.go",
		old:  `	if len(found.Refused) > 0 {`,
		new:  `	if len(found.Refused) < 0 {`,
	},
	{
		desc: "the hooks of an image are not on record", test: "TestImageHooks",
		file: "pool/imagehooks.go",
		old:  `{ c.ImageHooks = found.Hooks }`,
		new:  `{}`,
	},
	{
		desc: "a creation has no time for the hooks of the image", test: "TestImageHooksTime",
		file: "pool/imagehooks.go",
		old: `	if w.ImageHooks {
		timeout`,
		new: `	if !w.ImageHooks {
		timeout`,
	},
	{
		desc: "the main process is not started for the pre_destroy hooks of the image", test: "TestPreDestroyOfImageAfterStop",
		file: "release/steps.go",
		old:  `op.container.HasHooks(hooks.PreDestroy, op.w)`,
		new:  `len(op.w.Hooks[hooks.PreDestroy]) > 0`,
	},
	{
		desc: "a claim that restarts the main process runs no post_start hooks of the image", test: "TestImageHooksAfterRestart", pkg: "pool",
		file: "claim/steps.go",
		old:  `(len(a.w.Hooks[hooks.PostStart]) > 0 || a.w.ImageHooks)`,
		new:  `len(a.w.Hooks[hooks.PostStart]) > 0`,
	},
	{
		desc: "a listing may be longer than what is kept of it", test: "TestLongestListingOfImageHooks",
		file: "cmd/hostler-shim/image_hooks.go",
		old:  `%.200s is refused`,
		new:  `%s is refused`,
	},
	{
		desc: "the characters of HTML are escaped in a listing", test: "TestLongestListingOfImageHooks",
		file: "cmd/hostler-shim/image_hooks.go",
		old:  `e.SetEscapeHTML(false)`,
		new:  ``,
	},
	{
		desc: "files that are too many are read", test: "TestOnlyListedImageHooksAreRead",
		file: "cmd/hostler-shim/image_hooks.go",
		old:  `	if len(l.found.Hooks) == runtime.MaxImageHooks { // its content is not read`,
		new: `	if _, err := l.digest(file); err != nil {
		l.refuse(file, err)
		return
	}
	if len(l.found.Hooks) == runtime.MaxImageHooks {`,
	},
	{
		desc: "a hook of the image is compared before it is sealed", test: "TestCopyOfImageHookIsCompared",
		file: "cmd/hostler-shim/image_hook.go",
		old:  `digestOf(io.NewSectionReader(program, 0, runtime.MaxImageHookSize+1))`,
		new:  `digestOf(io.NewSectionReader(in, 0, runtime.MaxImageHookSize+1))`,
	},
	{
		desc: "a kernel without executable memory is not named", test: "TestImageHookWithoutExecutableMemory",
		file: "cmd/hostler-shim/image_hook.go",
		old:  `	if errors.Is(err, unix.EACCES) {`,
		new:  `	if errors.Is(err, unix.ENOSYS) {`,
	},
	{
		desc: "image_hooks without images are no warning", test: "TestNoImageHooks",
		file: "runtime/process/observe.go",
		old:  `"the containers of this backend have no image"`,
		new:  `""`,
	},
	{
		desc: "a crashed listing is an image without hooks", test: "TestCrashedListingIsAnError",
		file: "runtime/shim/backend/imagehook.go",
		old:  `strings.HasPrefix(result.Stderr.Head, usage):`,
		new:  `result.Stderr.Head != "":`,
	},
	{
		desc: "a listing has the time of any command", test: "TestCrashedListingIsAnError",
		file: "runtime/shim/backend/imagehook.go",
		old:  ` Timeout: listTimeout,`,
		new:  ``,
	},
	{
		desc: "a listing may have a file twice, and any order", test: "TestForgedImageHooks",
		file: "runtime/shim/backend/imagehook.go",
		old:  `compare(found.Hooks[i-1], h) >= 0`,
		new:  `compare(found.Hooks[i-1], h) > 1`,
	},
	{
		desc: "a listing may have any number of refusals", test: "TestForgedImageHooks",
		file: "runtime/shim/backend/imagehook.go",
		old:  ` || len(found.Refused) > runtime.MaxRefusedImageHooks+1 {`,
		new:  ` {`,
	},
	{
		desc: "a refusal is printed as the container has written it", test: "TestForgedImageHooks",
		file: "runtime/shim/backend/imagehook.go",
		old:  `list.Refused = append(list.Refused, oneLine(reason))`,
		new:  `list.Refused = append(list.Refused, reason)`,
	},
	{
		desc: "a listing may name a directory below", test: "TestForgedImageHooks",
		pkg:  "runtime/shim/backend",
		file: "runtime/imagehook.go",
		old:  `h.Path == ImageHooksDir+"/"+h.Point+".d/"+name && name != h.Point`,
		new:  `name != h.Point`,
	},
	{
		desc: "the name of a hook may begin with a dot", test: "TestImageHookNames",
		file: "runtime/imagehook.go",
		old:  ` || name[0] == '.'`,
	},
	{
		desc: "the name of a hook may have any characters", test: "TestImageHookNames",
		file: "runtime/imagehook.go",
		old:  `	return !strings.ContainsFunc(name, isOther)`,
		new:  `	return !strings.ContainsFunc(name, isOther) || true`,
	},
	{
		desc: "the name of a hook may have any length", test: "TestImageHookNames",
		file: "runtime/imagehook.go",
		old:  `len(name) > maxImageHookName`,
		new:  `len(name) > maxImageHookName+1`,
	},
	{
		desc: "a digest may be in upper case", test: "TestImageHookDigests",
		file: "runtime/imagehook.go",
		old:  ` && strings.ToLower(text) == text`,
	},
	{
		desc: "a listing may have any digest", test: "TestForgedImageHooks",
		pkg:  "runtime/shim/backend",
		file: "runtime/imagehook.go",
		old:  ` && isDigest(h.Digest)`,
		new:  ` && h.Digest != ""`,
	},
	{
		desc: "a hook that ran into its timeout has never started", test: "TestHookThatPretendsToBeRefused",
		file: "runtime/shim/backend/imagehook.go",
		old:  `ended := r.TimedOut || `,
		new:  `ended := `,
	},
	{
		desc: "a hook that printed its output has never started", test: "TestHookThatPretendsToBeRefused",
		file: "runtime/shim/backend/imagehook.go",
		old:  ` || r.Stdout.Total > 0`,
		new:  ``,
	},
	{
		desc: "a refusal has control characters", test: "TestHookThatPretendsToBeRefused",
		file: "runtime/shim/backend/imagehook.go",
		old:  `Detail: oneLine(reason)`,
		new:  `Detail: reason`,
	},
	{
		desc: "a hook of the image exceeds the grace period at pre_destroy", test: "TestHooksAt",
		file: "workload/imagehooks.go",
		old:  `	if p == hooks.PreDestroy {`,
		new:  `	if p == hooks.PreStart {`,
	},
	{
		desc: "hooks of the file have the timeouts of those of the image", test: "TestStuckHookBehindImageHooks",
		file: "doctor/claims.go",
		old:  `w.HooksAt(r.Point, c.ImageHooks)`,
		new:  `w.Hooks[r.Point]`,
	},
}
