package ptxrun

import (
	"context"

	"github.com/ptxrun/ptxrun/driver"
)

// EditOp is what an [Edit] does.
type EditOp uint8

const (
	// EditEqual keeps a span that both sequences have.
	EditEqual EditOp = iota
	// EditDelete leaves out a span of a.
	EditDelete
	// EditInsert puts in a span of b.
	EditInsert
	editOps
)

func (op EditOp) String() string {
	if op < editOps {
		return [...]string{"equal", "delete", "insert"}[op]
	}
	return "unknown edit"
}

// Edit is a step on the way from a to b: it turns a[AStart:AEnd] into
// b[BStart:BEnd]. Of a deletion the range in b is empty, of an insertion the
// range in a; those of EditEqual have the same elements.
type Edit struct {
	Op           EditOp
	AStart, AEnd int
	BStart, BEnd int
}

// LCSEdits returns the edit script of a longest common subsequence, see
// [Edits]: no script of insertions and deletions has fewer elements in them.
// Which of the shortest scripts it is follows from the matches that
// [LCSMatches] chooses. Errors are those of LCSMatches.
func LCSEdits[T Token](ctx context.Context, rt *Runtime, a, b []T, opts ...LCSOption) ([]Edit, error) {
	m, err := lcsMatches(ctx, "LCSEdits", rt, a, b, opts)
	if err != nil {
		return nil, err
	}
	return Edits(m, len(a), len(b))
}

// Edits returns the edit script that matches describe between sequences of lenA
// and lenB elements: edits whose ranges follow one another without a gap from
// the start of both sequences to their ends. No edit is empty, no two equal
// ones are neighbours, and a deletion comes before an insertion at the same
// place. Two empty sequences have no edits.
//
// ErrInvalidValue if the matches are not in increasing order, overlap, are empty
// or end beyond the sequences.
func Edits(matches []Match, lenA, lenB int) ([]Edit, error) {
	if lenA < 0 || lenB < 0 {
		return nil, driver.Errorf("Edits", driver.ErrInvalidValue, "sequences of %d and %d elements", lenA, lenB)
	}
	var edits []Edit
	i, j := 0, 0
	change := func(nextA, nextB int) {
		if i < nextA {
			edits = append(edits, Edit{EditDelete, i, nextA, j, j})
		}
		if j < nextB {
			edits = append(edits, Edit{EditInsert, nextA, nextA, j, nextB})
		}
		i, j = nextA, nextB
	}
	for n, m := range matches {
		if m.A < i || m.B < j || m.Len <= 0 || m.Len > lenA-m.A || m.Len > lenB-m.B {
			return nil, driver.Errorf("Edits", driver.ErrInvalidValue,
				"match %d is %d elements at %d and %d, of sequences of %d and %d, and may begin at %d and %d", n, m.Len, m.A, m.B, lenA, lenB, i, j)
		}
		change(m.A, m.B)
		i, j = m.A+m.Len, m.B+m.Len
		if last := len(edits) - 1; last >= 0 && edits[last].Op == EditEqual {
			edits[last].AEnd, edits[last].BEnd = i, j
		} else {
			edits = append(edits, Edit{EditEqual, m.A, i, m.B, j})
		}
	}
	change(lenA, lenB)
	return edits, nil
}
