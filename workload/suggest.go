package workload

import "strings"

// Suggest returns the candidate that a misspelt word may stand for, or "".
func Suggest(word string, candidates []string) string { return suggest(word, candidates) }

// suggest returns the candidate that word is most likely a misspelling of, or ""
// if none is similar.
func suggest(word string, candidates []string) string {
	const maxLen = 64 // a longer word is not a misspelling, and the cost is quadratic
	if len(word) > maxLen {
		return ""
	}
	best, bestDistance := "", 3
	for _, c := range candidates {
		if normalize(c) == normalize(word) {
			return c
		}
		if d := editDistance(word, c); d < bestDistance && d < len(c)-1 {
			best, bestDistance = c, d
		}
	}
	return best
}

// normalize removes the differences between snake_case, kebab-case and camelCase.
func normalize(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(s))
}

// editDistance returns the number of letters that must be changed, added or
// removed to turn a into b; a swap of two adjacent letters counts as one.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
