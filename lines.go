package ptxrun

import (
	"context"
	"strings"
)

// DiffLines returns the edit script that makes the text b of the text a by whole
// lines, of the fewest lines possible. Its ranges count lines, from 0. A line
// ends with its newline; a last one without is another line than with.
//
// Lines that the texts begin and end with alike are compared on the host, the
// others are numbered there, and the device aligns the numbers. Errors are those
// of [LCSMatches].
//
// Where lines repeat, several scripts are as short. A stretch of only deleted or
// only inserted lines is moved over equal ones to where it joins another change,
// or else as far down as it goes, so that an inserted function starts at its
// first line and not at the end of the one before.
func DiffLines(ctx context.Context, rt *Runtime, a, b string) ([]Edit, error) {
	return diffLines(ctx, "DiffLines", rt, splitLines(a), splitLines(b))
}

func splitLines(text string) []string {
	lines := make([]string, 0, strings.Count(text, "\n")+1)
	for line := range strings.Lines(text) {
		lines = append(lines, line)
	}
	return lines
}

func diffLines(ctx context.Context, call string, rt *Runtime, a, b []string) ([]Edit, error) {
	head, short := 0, min(len(a), len(b))
	for head < short && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < short-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	numbersA, numbersB := Renumber(a[head:len(a)-tail], b[head:len(b)-tail])
	inner, err := lcsMatches(ctx, call, rt, numbersA, numbersB, nil)
	if err != nil {
		return nil, err
	}
	var all []Match
	if head > 0 {
		all = append(all, Match{0, 0, head})
	}
	for _, m := range inner {
		all = append(all, Match{head + m.A, head + m.B, m.Len})
	}
	if tail > 0 {
		all = append(all, Match{len(a) - tail, len(b) - tail, tail})
	}
	return Edits(slide(all, a, b), len(a), len(b))
}

// slide moves the gaps between matches that are lines of one text only, see
// [DiffLines]. As many lines are matched as before.
func slide(matches []Match, a, b []string) []Match {
	done := []Match{{}} // ends, of no lines, stand for the start and the end of both texts
	for _, next := range append(matches, Match{len(a), len(b), 0}) {
		for {
			last := &done[len(done)-1]
			up, down := moves(*last, next, a, b)
			if up == last.Len && len(done) > 1 {
				// What was kept between two changes is kept below them both.
				next = Match{next.A - up, next.B - up, next.Len + up}
				done = done[:len(done)-1]
				continue
			}
			last.Len += down
			next = Match{next.A + down, next.B + down, next.Len - down}
			break
		}
		if next.Len > 0 {
			done = append(done, next)
		}
	}
	if done[0].Len == 0 {
		return done[1:]
	}
	return done
}

// moves is by how many lines the gap between two matches can be moved up and
// down: as far as the lines that it would lose at one end are those that it
// would gain at the other.
func moves(before, after Match, a, b []string) (up, down int) {
	lines, start, end := a, before.A+before.Len, after.A
	if startB := before.B + before.Len; start == end {
		lines, start, end = b, startB, after.B
	} else if startB != after.B {
		return 0, 0 // lines of both texts
	}
	if start == end {
		return 0, 0
	}
	for up < before.Len && lines[start-1-up] == lines[end-1-up] {
		up++
	}
	for down < after.Len && lines[start+down] == lines[end+down] {
		down++
	}
	return up, down
}
