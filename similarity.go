package ptxrun

import (
	"context"
	"math"

	"github.com/ptxrun/ptxrun/driver"
)

// Similarity is how alike two sequences are, from the length of their longest
// common subsequence. Its methods take any lengths that two sequences can have:
// Common is at most the shorter one's.
type Similarity struct {
	Common     int // elements of a longest common subsequence
	LenA, LenB int // elements of the sequences
}

// LCSSimilarity compares a and b. Errors are those of [LCSLength].
func LCSSimilarity[T Token](ctx context.Context, rt *Runtime, a, b []T, opts ...LCSOption) (Similarity, error) {
	n, err := LCSLength(ctx, rt, a, b, opts...)
	if err != nil {
		return Similarity{}, err
	}
	return Similarity{n, len(a), len(b)}, nil
}

// Ratio is the share of both sequences' elements that are common, 2·Common /
// (LenA + LenB): from 0 for nothing to 1 for equal sequences, two empty ones
// among them.
func (s Similarity) Ratio() float64 {
	if s.LenA == 0 && s.LenB == 0 {
		return 1
	}
	return 2 * float64(s.Common) / s.length()
}

// IndelDistance is the least number of elements to delete and insert to make
// one sequence of the other: the edit distance without substitutions.
func (s Similarity) IndelDistance() int { return s.LenA - s.Common + (s.LenB - s.Common) }

// NormalizedIndel is IndelDistance over its largest value, LenA + LenB: from 0
// for equal sequences, two empty ones among them, to 1 for nothing in common.
func (s Similarity) NormalizedIndel() float64 {
	if s.LenA == 0 && s.LenB == 0 {
		return 0
	}
	return float64(s.IndelDistance()) / s.length()
}

func (s Similarity) length() float64 { return float64(s.LenA) + float64(s.LenB) }

// RougeScore is how much of a candidate a reference has (precision), how much of
// the reference the candidate has (recall), and their weighted harmonic mean;
// each from 0 to 1.
type RougeScore struct{ Precision, Recall, F float64 }

// RougeL scores a candidate text against a reference by the longest common
// subsequence of their tokens: ROUGE-L on the level of sentences (Lin 2004).
// Precision is its length over the candidate's, recall over the reference's, and
//
//	F = (1 + beta²)·Precision·Recall / (Recall + beta²·Precision)
//
// so that recall counts beta times as much as precision: 1 weighs both the same,
// 0 makes F the precision, +Inf the recall. A sequence without tokens has nothing
// that could be found: all three are then 0, also where both are empty.
//
// Errors are ErrInvalidValue if beta is negative or not a number, and those of
// [LCSLength].
func RougeL[T Token](ctx context.Context, rt *Runtime, candidate, reference []T, beta float64, opts ...LCSOption) (RougeScore, error) {
	if err := checkBeta(beta); err != nil {
		return RougeScore{}, err
	}
	s, err := LCSSimilarity(ctx, rt, candidate, reference, opts...)
	if err != nil {
		return RougeScore{}, err
	}
	return s.RougeL(beta)
}

// RougeL is the score of [RougeL] with a as the candidate and b as the reference.
func (s Similarity) RougeL(beta float64) (RougeScore, error) {
	if err := checkBeta(beta); err != nil {
		return RougeScore{}, err
	}
	if s.Common == 0 || s.LenA == 0 || s.LenB == 0 {
		return RougeScore{}, nil
	}
	p, r := float64(s.Common)/float64(s.LenA), float64(s.Common)/float64(s.LenB)
	score := RougeScore{Precision: p, Recall: r, F: r}
	if square := beta * beta; !math.IsInf(square, 1) {
		score.F = (1 + square) * p * r / (r + square*p)
	}
	return score, nil
}

func checkBeta(beta float64) error {
	if beta >= 0 {
		return nil
	}
	return driver.Errorf("RougeL", driver.ErrInvalidValue, "beta is %v; it may be 0 and more", beta)
}
