package ptxrun

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// lookAtLetters makes all pairs of a test worth a look at their letters, or none.
func lookAtLetters(t testing.TB, all bool) {
	gpu, cpu := lcsCellsOnGPU, lcsCellsOnCPU
	t.Cleanup(func() { lcsCellsOnGPU, lcsCellsOnCPU = gpu, cpu })
	lcsCellsOnGPU, lcsCellsOnCPU = math.Inf(1), math.Inf(1)
	if all {
		lcsCellsOnGPU, lcsCellsOnCPU = 0, 0
	}
}

// testLCSBound has two groups of sequences with one letter in common, and
// relatives in each of them.
func testLCSBound[T Token](t *testing.T, d testDevice, rt *Runtime) {
	r := rand.New(rand.NewPCG(uint64(sizeOf[T]()), 7))
	band := int(lcsRows(int(sizeOf[T]())))
	many := 60
	if d.slow || raceEnabled {
		many = 12
	}
	var a [][]T
	for group := range 2 {
		for k := range many + 3 {
			s := randomTokens[T](r, 100, 4)
			if k >= many {
				s = randomTokens[T](r, band+40, 4)
			}
			if k%3 == 1 {
				s = slices.Clone(a[len(a)-1])
				s[r.IntN(len(s))]++
			}
			if k%3 != 1 && group == 1 {
				for i := range s {
					s[i] += 100
				}
			}
			s[len(s)/2] = 99
			a = append(a, s)
		}
	}
	a = append(a, nil, nil)

	for _, cutoff := range []float64{0.7, 0.2, 1} {
		lookAtLetters(t, false)
		want, err := LCSSelfPairs(t.Context(), rt, a, cutoff)
		require.NoError(t, err)
		lookAtLetters(t, true)
		got, err := LCSSelfPairs(t.Context(), rt, a, cutoff)
		require.NoError(t, err)
		requireSame(t, want, got, "cutoff %v", cutoff)
		require.Greater(t, len(want), 0)
		want = slices.DeleteFunc(want, func(p LCSPair) bool { return p.A >= many || p.B < many })
		got, err = LCSPairs(t.Context(), rt, a[:many], a[many:], cutoff)
		require.NoError(t, err)
		for i := range want {
			want[i].B -= many
		}
		requireSame(t, want, got, "cutoff %v, two batches", cutoff)
		if d.slow {
			break
		}
	}

	var short, long int // pairs left out
	require.NoError(t, rt.onStream("test", func(s *Stream) error {
		return lcsByRows(t.Context(), s, a, a, true, 0.7, func(i int, columns []int, lengths []uint32) {
			for k, j := range columns {
				m, n := len(a[i]), len(a[j])
				want := lengthLCS(a[i], a[j])
				switch {
				case lengths[k] == want:
				case min(m, n) > band:
					long++
				default:
					short++
				}
				if lengths[k] != want {
					require.Zero(t, lengths[k])
					require.Less(t, lcsRatio(int(want), m, n), 0.7)
				}
			}
		})
	}))
	require.Equal(t, 9, long)
	// Bands may have patterns of both groups.
	require.GreaterOrEqual(t, short, many*many/2)
}

func TestLCSBound(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		t.Run("u8", func(t *testing.T) { testLCSBound[uint8](t, d, rt) })
		t.Run("u32", func(t *testing.T) { testLCSBound[uint32](t, d, rt) })
	})
}

func testLCSBoundHolds[T Token](t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(sizeOf[T]()), 8))
	ruledOut := 0
	for range 2000 {
		x, y := randomTokens[T](r, r.IntN(40), 1+r.IntN(300)), randomTokens[T](r, r.IntN(40), 1+r.IntN(300))
		ratio := lcsRatio(int(lengthLCS(x, y)), len(x), len(y))
		q := &lcsBound[T]{n: 256}
		if sizeOf[T]() == 1 {
			q.number([][]T{x})
		}
		a, b := lcsItem[T]{seq: x}, lcsItem[T]{seq: y}
		q.cutoff = ratio
		require.True(t, q.reachable(&a, &b), "%v %v", x, y)
		if q.cutoff = ratio + 0.1; !q.reachable(&a, &b) {
			ruledOut++
		}
	}
	require.Greater(t, ruledOut, 200)
}

// TestLCSBoundHolds has pairs at the ratio that they reach.
func TestLCSBoundHolds(t *testing.T) {
	t.Run("u8", testLCSBoundHolds[uint8])
	t.Run("i16", testLCSBoundHolds[int16])
	t.Run("u64", testLCSBoundHolds[uint64])
}

// TestLCSBoundMemory counts the letters of two long sequences among many short ones,
// with which no pair pays.
func TestLCSBoundMemory(t *testing.T) {
	rt := openCPU(t)
	long := make([]byte, 1000)
	for i := range long {
		long[i] = byte(i)
	}
	short := slices.Repeat([][]byte{{1}}, 10000)
	batch := append(short, long)
	lookAtLetters(t, true)
	lcsCellsOnCPU = 10 * float64(len(long)) / float64(257*rt.Info().Multiprocessors)
	allocated := func(b [][]byte) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := LCSPairs(t.Context(), rt, [][]byte{long}, b, 0.9)
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	without := allocated(short)
	require.Less(t, allocated(batch), without+uint64(256*len(short)))
}

func BenchmarkLCSBound(b *testing.B) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, letters := range []int{4, 26, 256} {
		b.Run(strconv.Itoa(letters), func(b *testing.B) {
			strings := randomBatch[byte](r, letters, slices.Repeat([]int{1000}, 100)...)
			q := &lcsBound[byte]{cutoff: 0.9}
			q.number(strings)
			items := make([]lcsItem[byte], len(strings))
			for i, s := range strings {
				items[i] = lcsItem[byte]{seq: s, counts: q.count(s)}
			}
			for i := 0; b.Loop(); i++ {
				q.reachable(&items[i%100], &items[i*7%100])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*q.n), "ns/counter")
		})
	}
}

// BenchmarkLCSPairs is the cpu device's pairs of 100 letters of 26 above a cutoff,
// with the bound and without.
func BenchmarkLCSPairs(b *testing.B) {
	rt := openCPU(b)
	strings := randomBatch[byte](rand.New(rand.NewPCG(10, 9)), 26, slices.Repeat([]int{100}, 1000)...)
	for _, all := range []bool{false, true} {
		b.Run("bound "+strconv.FormatBool(all), func(b *testing.B) {
			lookAtLetters(b, all)
			for b.Loop() {
				_, err := LCSSelfPairs(b.Context(), rt, strings, 0.9)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(1000*999/2), "ns/pair")
		})
	}
}

// TestLCSReads has pieces of a genome, and pieces with errors.
func TestLCSReads(t *testing.T) {
	dna := genome(t)
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		r := rand.New(rand.NewPCG(74, 2))
		n := 40
		if d.slow || raceEnabled {
			n = 10
		}
		var reads, pieces [][]byte
		for range n {
			at := r.IntN(len(dna) - 150)
			pieces = append(pieces, dna[at:at+150])
			reads = append(reads, mutated(r, dna[at:at+150]))
		}
		var want []LCSPair
		for i := range reads {
			for j := range pieces {
				length := int(lengthLCS(reads[i], pieces[j]))
				if ratio := lcsRatio(length, len(reads[i]), len(pieces[j])); ratio >= 0.85 {
					want = append(want, LCSPair{i, j, length, ratio})
				}
			}
		}
		require.GreaterOrEqual(t, len(want), n)
		for _, all := range []bool{false, true} {
			lookAtLetters(t, all)
			got, err := LCSPairs(t.Context(), rt, reads, pieces, 0.85)
			require.NoError(t, err)
			requireSame(t, want, got, "all looked at: %v", all)
		}
	})
}
