package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// day is what a "d" in a duration stands for.
const day = 24 * time.Hour

// parseDuration reads a duration as time.ParseDuration does, also one that begins
// with whole days, such as 1d or 1d12h.
func parseDuration(text string) (time.Duration, error) {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration like 30s, 10m, 2h or 1d", text)
		}
		return d, nil
	}
	const maxDays = 36500 // the product with a day must not overflow
	n, err := strconv.Atoi(days)
	var d time.Duration
	if err == nil && rest != "" {
		d, err = time.ParseDuration(rest)
	}
	if err != nil || n < 0 || n > maxDays || d < 0 || d > maxDays*day {
		return 0, fmt.Errorf("%q is not a duration like 30s, 10m, 2h or 1d", text)
	}
	return time.Duration(n)*day + d, nil
}

// durationFlag is the value of a flag that takes a duration with days.
type durationFlag struct{ d *time.Duration }

func (f durationFlag) String() string {
	if f.d == nil || *f.d == 0 {
		return ""
	}
	return f.d.String()
}

func (f durationFlag) Type() string { return "duration" }

func (f durationFlag) Set(text string) (err error) {
	*f.d, err = parseDuration(text)
	return err
}

// sinceOf returns the beginning that --since names as the API takes it.
func sinceOf(text string) (string, error) {
	if _, err := time.Parse(time.RFC3339, text); err == nil || text == "" {
		return text, nil
	}
	d, err := parseDuration(text)
	if err != nil || d < 0 {
		return "", fmt.Errorf("--since %q is neither a time like 2026-01-31T15:04:05Z nor an age like 10m or 1d", text)
	}
	return d.String(), nil
}
