package main

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ptxrun/ptxrun"
)

// The data is a formula, so that a peer in another language makes the same.

// hash is the finaliser of SplitMix64.
func hash(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// number is the element i of numbers.
func number[T ptxrun.Number](i uint64) T { return T(hash(i) >> 40) }

// rising are numbers whose maximum keeps changing.
func rising(i uint64) uint32 { return uint32(i) + uint32(hash(i)>>44) }

// elements are n elements by a formula.
func elements[T any](n int, element func(i uint64) T) []T {
	s := make([]T, n)
	pieces(n, func(from, to int) {
		for i := from; i < to; i++ {
			s[i] = element(uint64(i))
		}
	})
	return s
}

// digest is the memory of a value of up to 8 bytes as a number.
func digest(v any) uint64 {
	var b [8]byte
	if _, err := binary.Encode(b[:], binary.NativeEndian, v); err != nil {
		panic(err)
	}
	return binary.NativeEndian.Uint64(b[:])
}

// letters are n letters of an alphabet of four.
func letters(n int, seed uint64) []byte {
	s := make([]byte, n)
	for i := range s {
		s[i] = "ACGT"[hash(seed<<32|uint64(i))&3]
	}
	return s
}

// lcsLength is the length of the longest common subsequence by the definition.
func lcsLength(a, b []byte) int {
	row := make([]int32, len(b)+1)
	for i := range a {
		diagonal := int32(0)
		for j := range b {
			up := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(up, row[j])
			}
			diagonal = up
		}
	}
	return int(row[len(b)])
}

// runData is n bytes in runs whose lengths are geometric with the given mean,
// and how many runs there are. A run begins at 0 and wherever hash(k) is a
// multiple of mean; its value is the one before it, 0 at first, plus
// 1 + (hash(k) >> 32) % 255.
func runData(n, mean int) (data []byte, runs int) {
	const piece = 1 << 20
	pieces := (n + piece - 1) / piece
	steps, counts := make([]byte, pieces), make([]int, pieces)
	data = make([]byte, n)
	parallel(pieces, func(p int) {
		value := byte(0)
		for k := p * piece; k < min(n, (p+1)*piece); k++ {
			if h := hash(uint64(k)); k == 0 || h%uint64(mean) == 0 {
				value += byte(1 + (h>>32)%255)
				counts[p]++
			}
			data[k] = value // relative to the piece's start
		}
		steps[p] = value
	})
	start := byte(0)
	for p, step := range steps {
		runs += counts[p]
		steps[p], start = start, start+step
	}
	parallel(pieces, func(p int) {
		for k := p * piece; k < min(n, (p+1)*piece); k++ {
			data[k] += steps[p]
		}
	})
	return data, runs
}

// encoded is what data, of a known number of runs, is encoded to.
func encoded[V uint8 | uint32](data []V, runs int) (values []V, lengths []uint32) {
	values, lengths = make([]V, 0, runs), make([]uint32, 0, runs)
	for len(data) > 0 {
		n := 1
		for n < len(data) && data[n] == data[0] {
			n++
		}
		values, lengths = append(values, data[0]), append(lengths, uint32(n))
		data = data[n:]
	}
	return values, lengths
}

// firstWrong is the first i below n for which right is false, or n.
func firstWrong(n int, right func(i int) bool) int {
	var first atomic.Int64
	first.Store(int64(n))
	pieces(n, func(from, to int) {
		for i := from; i < to; i++ {
			if right(i) {
				continue
			}
			for was := first.Load(); int64(i) < was && !first.CompareAndSwap(was, int64(i)); was = first.Load() {
			}
			return
		}
	})
	return int(first.Load())
}

// pieces calls f on pieces of [0, n), on all cores.
func pieces(n int, f func(from, to int)) {
	const piece = 1 << 20
	parallel((n+piece-1)/piece, func(p int) { f(p*piece, min(n, (p+1)*piece)) })
}

// parallel calls f(0), …, f(n-1) on all cores.
func parallel(n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	wg.Wait()
}
