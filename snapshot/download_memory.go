package snapshot

// maxWide is how many downloads of a server read ahead with wideWindow. Others
// use narrowWindow: they are slower where requests take long, but none waits,
// because a claim waits for its download and a tenant's container can be slow.
const maxWide = 4

// wideDownloads has an element for each download that may begin with wideWindow.
type wideDownloads chan struct{}

func newWideDownloads() wideDownloads {
	w := make(wideDownloads, maxWide)
	for range maxWide {
		w <- struct{}{}
	}
	return w
}

// window returns the memory for the chunks of a download, and a function that is
// called after it.
func (t *partDownload) window() (size int, done func()) {
	if t.part.Bytes <= narrowWindow/2 {
		return narrowWindow, func() {} // it never uses more
	}
	select {
	case free := <-t.wide:
		return wideWindow, func() { t.wide <- free }
	default:
		return narrowWindow, func() {}
	}
}
