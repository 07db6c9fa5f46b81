package term

import "strings"

// maxWord is the longest word that is compared, in bytes: longer ones are no slips.
const maxWord = 64

// Nearest returns the one of known that word was probably meant to be, or "".
func Nearest(word string, known []string) string {
	best, distance := "", min(max(2, len(word)/3), len(word)-1)+1 // of one letter, nothing is near
	if len(word) > maxWord {
		return ""
	}
	for _, candidate := range known {
		if len(word) >= 3 && strings.HasPrefix(strings.ToLower(candidate), strings.ToLower(word)) {
			return candidate
		}
		if d := editDistance(strings.ToLower(word), strings.ToLower(candidate)); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance of a and b in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
