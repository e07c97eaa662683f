package client_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever calls the API reads in docs/api.md of every code that a problem may
// have.
func TestCodesAreDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../errors.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	codes := regexp.MustCompile(`(?m)^\t\w+ +Code = "(\w+)"$`).FindAllSubmatch(source, -1)
	require.Greater(t, len(codes), 20)
	for _, code := range codes {
		require.Contains(t, string(page), "`"+string(code[1])+"`")
	}
}
