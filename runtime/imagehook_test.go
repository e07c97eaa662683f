package runtime

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImageHookNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "post_claim", "10-a", "_a", "A.sh", "0", strings.Repeat("n", 64), "a.", "a-", "zZ9"} {
		require.True(t, IsImageHookName(name), name)
	}
	for _, name := range []string{
		"", ".", "..", ".a", "-a", "a b", "a/b", "a\n", "a\x00", "refused~", "\u00e4", "a\xff", "a@", "a[", "a`", "a{", "a:",
		strings.Repeat("n", 65),
	} {
		require.False(t, IsImageHookName(name), "%q", name)
	}
}

func TestImageHookDigests(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0123456789abcdef", 4)
	listed := func(digest string) bool {
		return ImageHook{Point: "post_claim", Path: ImageHooksDir + "/post_claim", Digest: digest}.IsListed()
	}
	require.True(t, listed(digest))
	for _, other := range []string{"", digest[2:], digest + "00", strings.ToUpper(digest), "g" + digest[1:], digest[1:]} {
		require.False(t, listed(other), other)
	}
}
