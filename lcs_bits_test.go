package ptxrun

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cpu"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// referenceLCS is the lengths of a and every prefix of b, and the matches of the
// walk back that LCSMatches documents, from the whole table.
func referenceLCS[T Token](a, b []T) (prefixes []uint32, matches []Match) {
	table := make([][]uint32, len(a)+1)
	table[0] = make([]uint32, len(b)+1)
	for i, x := range a {
		row := make([]uint32, len(b)+1)
		for j, y := range b {
			if row[j+1] = max(table[i][j+1], row[j]); x == y {
				row[j+1] = table[i][j] + 1
			}
		}
		table[i+1] = row
	}
	var back []Match
	for i, j := len(a), len(b); i > 0 && j > 0; {
		switch {
		case table[i-1][j] == table[i][j]:
			i--
		case a[i-1] == b[j-1]:
			i, j = i-1, j-1
			if k := len(back) - 1; k >= 0 && back[k].A == i+1 && back[k].B == j+1 {
				back[k] = Match{i, j, back[k].Len + 1}
			} else {
				back = append(back, Match{i, j, 1})
			}
		default:
			j--
		}
	}
	for k := range back {
		matches = append(matches, back[len(back)-1-k])
	}
	return table[len(a)], matches
}

func randomTokens[T Token](r *rand.Rand, n, letters int) []T {
	s := make([]T, n)
	for i := range s {
		// Spread over all bits, so that no part of a token decides.
		x := r.Uint64N(uint64(letters))
		s[i] = T(x * 0x9e3779b97f4a7c15 >> 3)
		if letters <= 256 && sizeOf[T]() == 1 {
			s[i] = T(x)
		}
	}
	return s
}

func checkLCS[T Token](t *testing.T, rt *Runtime, a, b []T, format string, args ...any) {
	t.Helper()
	name := fmt.Sprintf(format, args...)
	prefixes, matches := referenceLCS(a, b)
	length, err := LCSLength(t.Context(), rt, a, b)
	require.NoError(t, err, name)
	require.Equal(t, int(prefixes[len(b)]), length, name)
	got, err := LCSPrefixes(t.Context(), rt, a, b)
	require.NoError(t, err, name)
	requireSame(t, prefixes, got, "%s: prefixes", name)
	gotMatches, err := LCSMatches(t.Context(), rt, a, b)
	require.NoError(t, err, name)
	requireSame(t, matches, gotMatches, "%s: matches", name)
	common, err := LCS(t.Context(), rt, a, b)
	require.NoError(t, err, name)
	require.Len(t, common, length, name)
}

func testLCSTokens[T Token](t *testing.T, d testDevice, rt *Runtime) {
	r := rand.New(rand.NewPCG(uint64(sizeOf[T]()), 6))
	band := int(lcsRows(int(sizeOf[T]())))
	sizes := [][2]int{{0, 5}, {5, 0}, {1, 1}, {31, 33}, {33, 31}, {64, 65}, {band - 1, 70}, {band, 31}, {band + 1, 257}, {2*band + 17, 300}}
	if !d.slow && !raceEnabled {
		sizes = append(sizes, [2]int{4097, 1000}, [2]int{1000, 4097}, [2]int{5*band + 1, 2000}, [2]int{3 * band, 3 * band})
	}
	for _, size := range sizes {
		for _, letters := range []int{1, 4, 200, 5000} {
			if d.slow && letters != 4 && letters != 5000 && size[0] > 100 {
				continue
			}
			a, b := randomTokens[T](r, size[0], letters), randomTokens[T](r, size[1], letters)
			checkLCS(t, rt, a, b, "%d × %d, %d letters", size[0], size[1], letters)
		}
	}
}

func TestLCSBitParallel(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		t.Run("u8", func(t *testing.T) { testLCSTokens[uint8](t, d, rt) })
		t.Run("i16", func(t *testing.T) { testLCSTokens[int16](t, d, rt) })
		t.Run("u32", func(t *testing.T) { testLCSTokens[uint32](t, d, rt) })
		t.Run("u64", func(t *testing.T) { testLCSTokens[uint64](t, d, rt) })
	})
}

// TestLCSDivided cuts pairs many times, and pieces that are wider than is stored.
func TestLCSDivided(t *testing.T) {
	ways, halved, ends, stored := lcsWays, lcsHalved, lcsBothEnds, lcsStored
	defer func() {
		lcsWays, lcsHalved, lcsBothEnds, lcsStored = ways, halved, ends, stored
	}()
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		r := rand.New(rand.NewPCG(1, 9))
		bands := 9
		if d.slow {
			bands = 4
		}
		lcsStored, lcsBothEnds = 200*512/8, 2
		// In two and more sections, from both ends at once or in halves.
		for _, cut := range [][2]int64{{2, 1 << 30}, {2, 0}, {3, 0}, {5, 0}} {
			lcsWays, lcsHalved = cut[0], cut[1]
			for _, letters := range []int{2, 90} {
				a, b := randomTokens[uint16](r, bands*512+100, letters), randomTokens[uint16](r, 700, letters)
				checkLCS(t, rt, a, b, "%d letters, cut %v", letters, cut)
				checkLCS(t, rt, b[:300], a[:1000], "%d letters, cut %v, wide", letters, cut)
			}
			same := randomTokens[uint16](r, 1600, 1<<15)
			checkLCS(t, rt, same, same, "the same")
			checkLCS(t, rt, same, append(same[800:1600:1600], same[:800]...), "turned")
			checkLCS(t, rt, same[1:], same[:1], "all columns beside one half")
			checkLCS(t, rt, same, same[1599:], "all columns beside the other")
		}
	})
}

// checkMatches holds matches against what every longest common subsequence is.
func checkMatches[T Token](t *testing.T, a, b []T, matches []Match, length int) {
	total, i, j := 0, 0, 0
	for _, m := range matches {
		require.True(t, m.Len > 0 && m.A >= i && m.B >= j && (m.A > i || m.B > j || i == 0), "%v behind %d, %d", m, i, j)
		for k := range m.Len {
			require.Equal(t, a[m.A+k], b[m.B+k])
		}
		total, i, j = total+m.Len, m.A+m.Len, m.B+m.Len
	}
	require.LessOrEqual(t, i, len(a))
	require.LessOrEqual(t, j, len(b))
	require.Equal(t, length, total)
}

// TestLCSLong has 2^20 letters; on host devices the other sequence is shorter, for
// the time that the table takes.
func TestLCSLong(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m, n := 1<<20, 1<<14
		switch {
		case d.name == "cuda":
			n = 1 << 20
		case d.slow || raceEnabled:
			m, n = 5000, 300
		}
		r := rand.New(rand.NewPCG(20, 20))
		a, b := randomTokens[byte](r, m, 4), randomTokens[byte](r, n, 4)
		length, err := LCSLength(t.Context(), rt, a, b)
		require.NoError(t, err)
		matches, err := LCSMatches(t.Context(), rt, a, b)
		require.NoError(t, err)
		checkMatches(t, a, b, matches, length)
		prefixes, err := LCSPrefixes(t.Context(), rt, a, b)
		require.NoError(t, err)
		require.Equal(t, length, int(prefixes[n]))
	})
}

// TestLCSText has two versions of a speech.
func TestLCSText(t *testing.T) {
	first, err := os.ReadFile("testdata/gettysburg-first.txt")
	require.NoError(t, err)
	final, err := os.ReadFile("testdata/gettysburg-final.txt")
	require.NoError(t, err)
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		checkLCS(t, rt, first, final, "bytes")
		a, b := Renumber(strings.Fields(string(first)), strings.Fields(string(final)))
		checkLCS(t, rt, a, b, "words")
	})
}

// genome is phage phiX174's.
func genome(t *testing.T) []byte {
	text, err := os.ReadFile("testdata/phix174.fasta")
	require.NoError(t, err)
	_, text, _ = bytes.Cut(text, []byte("\n"))
	bases := bytes.ReplaceAll(text, []byte("\n"), nil)
	require.Len(t, bases, 5386)
	for base, n := range map[string]int{"A": 1291, "C": 1157, "G": 1254, "T": 1684} {
		require.Equal(t, n, bytes.Count(bases, []byte(base)), base)
	}
	return bases
}

// mutated is DNA after substitutions, deletions and insertions.
func mutated(r *rand.Rand, dna []byte) (relative []byte) {
	for _, base := range dna {
		switch p := r.IntN(100); {
		case p < 6:
			relative = append(relative, "ACGT"[r.IntN(4)])
		case p < 8:
		case p < 10:
			relative = append(relative, "ACGT"[r.IntN(4)])
			fallthrough
		default:
			relative = append(relative, base)
		}
	}
	return relative
}

// TestLCSDNA has a genome beside a relative, and beside its other strand.
func TestLCSDNA(t *testing.T) {
	dna := genome(t)
	relative := mutated(rand.New(rand.NewPCG(1, 74)), dna)
	strand := make([]byte, len(dna))
	for i, base := range dna {
		strand[len(dna)-1-i] = map[byte]byte{'A': 'T', 'C': 'G', 'G': 'C', 'T': 'A'}[base]
	}
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		bases, plain := len(dna), len(dna)
		if d.slow || raceEnabled {
			bases, plain = 1300, 120
		}
		for _, other := range [][]byte{relative, strand} {
			a, b := dna[:bases], other[:min(bases, len(other))]
			want := int(lengthLCS(a, b))
			length, err := LCSLength(t.Context(), rt, a, b)
			require.NoError(t, err)
			require.Equal(t, want, length)
			matches, err := LCSMatches(t.Context(), rt, a, b)
			require.NoError(t, err)
			checkMatches(t, a, b, matches, want)
			a, b = a[:plain], b[:min(plain, len(b))]
			want = int(lengthLCS(a, b))
			for _, s := range []LCSStrategy{LCSSpinWait, LCSTiled} {
				length, err := LCSLength(t.Context(), rt, a, b, WithLCSStrategy(s))
				require.NoError(t, err)
				require.Equal(t, want, length, "%v", s)
			}
		}
	})
}

// TestLCSRandomPairs has thousands of short pairs, in which every kind of path
// occurs.
func TestLCSRandomPairs(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		r := rand.New(rand.NewPCG(8, 8))
		pairs, longest := 3000, 70
		if d.slow || raceEnabled {
			pairs, longest = 40, 40
		}
		for range pairs {
			letters := 1 + r.IntN(6)
			a, b := randomTokens[byte](r, r.IntN(longest), letters), randomTokens[byte](r, r.IntN(longest), letters)
			checkLCS(t, rt, a, b, "%q %q", a, b)
		}
	})
}

func TestLCSBuffers(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(4, 4))
		for _, size := range [][2]int{{0, 3}, {1500, 77}, {77, 1500}} {
			x, y := randomTokens[uint32](r, size[0], 9), randomTokens[uint32](r, size[1], 9)
			a, b, length := newGuarded[uint32](t, s, len(x), 1), newGuarded[uint32](t, s, len(y), 3), newGuarded[uint64](t, s, 1, 1)
			require.NoError(t, a.CopyFrom(s, x))
			require.NoError(t, b.CopyFrom(s, y))
			require.NoError(t, LCSLengthBuffer(s, length.Buffer, a.Buffer, b.Buffer))
			require.ErrorIs(t, LCSLengthBuffer(s, nil, a.Buffer, b.Buffer), driver.ErrNil)
			require.ErrorIs(t, LCSLengthBuffer(s, length.whole, a.Buffer, b.Buffer), driver.ErrLength)
			prefixes := newGuarded[uint32](t, s, len(y)+1, 2)
			require.NoError(t, LCSPrefixesBuffer(s, prefixes.Buffer, a.Buffer, b.Buffer))
			require.ErrorIs(t, LCSPrefixesBuffer(s, prefixes.whole, a.Buffer, b.Buffer), driver.ErrLength)
			want, _ := referenceLCS(x, y)
			requireSame(t, want, prefixes.check(t, s, "prefixes"), "%d × %d", len(x), len(y))
			require.Equal(t, []uint64{uint64(lengthLCS(x, y))}, length.check(t, s, "length"))
			require.Equal(t, x, append([]uint32{}, a.check(t, s, "a")...))
			b.check(t, s, "b")
		}
		word, err := NewBuffer[uint64](rt, 1)
		require.NoError(t, err)
		require.ErrorIs(t, LCSLengthBuffer(s, word, word, word), driver.ErrOverlap)
		require.ErrorIs(t, LCSPrefixesBuffer(s, nil, word, word), driver.ErrNil)
		require.NoError(t, word.Free())
		require.NoError(t, s.Close())
	})
}

func testLCSMatchesBuffer[T Token, I Index](t *testing.T, d testDevice, rt *Runtime) {
	s, err := NewStream(rt)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(4, 5))
	sizes := [][2]int{{0, 3}, {3, 0}, {1, 1}, {33, 64}, {1500, 77}, {77, 1500}}
	if !d.slow && !raceEnabled {
		sizes = append(sizes, [2]int{9000, 1000})
	}
	for _, size := range sizes {
		x, y := randomTokens[T](r, size[0], 9), randomTokens[T](r, size[1], 9)
		var wantA, wantB []I
		_, matches := referenceLCS(x, y)
		for _, m := range matches {
			for k := range m.Len {
				wantA, wantB = append(wantA, I(m.A+k)), append(wantB, I(m.B+k))
			}
		}
		a, err := NewBufferFrom(s, x)
		require.NoError(t, err)
		b, err := NewBufferFrom(s, y)
		require.NoError(t, err)
		for _, room := range []int{min(len(x), len(y)), len(wantA), len(wantA) / 2} {
			msg := fmt.Sprintf("%d × %d, room for %d", len(x), len(y), room)
			aIndices, bIndices, count := newGuarded[I](t, s, room, 3), newGuarded[I](t, s, room, 0), newGuarded[uint64](t, s, 1, 1)
			require.NoError(t, LCSMatchesBuffer(s, aIndices.Buffer, bIndices.Buffer, count.Buffer, a, b))
			require.Equal(t, []uint64{uint64(len(wantA))}, count.check(t, s, msg))
			for _, indices := range []struct {
				want []I
				got  []I
			}{{wantA, aIndices.check(t, s, msg)}, {wantB, bIndices.check(t, s, msg)}} {
				stored := min(room, len(indices.want))
				requireSame(t, indices.want[:stored], indices.got[:stored], "%s", msg)
				requireSame(t, slices.Repeat([]I{canary}, room-stored), indices.got[stored:], "%s: behind", msg)
			}
		}
		require.NoError(t, a.Free())
		require.NoError(t, b.Free())
	}
	require.NoError(t, s.Close())
}

func TestLCSMatchesBuffer(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		t.Run("u8", func(t *testing.T) { testLCSMatchesBuffer[uint8, uint32](t, d, rt) })
		t.Run("u32", func(t *testing.T) { testLCSMatchesBuffer[uint32, uint64](t, d, rt) })
	})
}

func TestLCSMatchesBufferErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		x, err := NewBufferFrom(s, []uint64{1, 2, 3, 4})
		require.NoError(t, err)
		out, err := NewBuffer[uint64](rt, 9)
		require.NoError(t, err)
		part := func(from, to int) *Buffer[uint64] {
			b, err := out.Slice(from, to)
			require.NoError(t, err)
			return b
		}
		aIndices, bIndices, count := part(0, 4), part(4, 8), part(8, 9)
		require.ErrorIs(t, LCSMatchesBuffer(nil, aIndices, bIndices, count, x, x), driver.ErrNil)
		require.ErrorIs(t, LCSMatchesBuffer(s, aIndices, nil, count, x, x), driver.ErrNil)
		require.ErrorIs(t, LCSMatchesBuffer(s, aIndices, part(4, 7), count, x, x), driver.ErrLength)
		require.ErrorIs(t, LCSMatchesBuffer(s, aIndices, bIndices, out, x, x), driver.ErrLength)
		require.ErrorIs(t, LCSMatchesBuffer(s, aIndices, part(3, 7), count, x, x), driver.ErrOverlap)
		require.ErrorIs(t, LCSMatchesBuffer(s, aIndices, bIndices, part(7, 8), x, x), driver.ErrOverlap)
		require.ErrorIs(t, LCSMatchesBuffer(s, aIndices, bIndices, count, x, part(2, 3)), driver.ErrOverlap)
		require.NoError(t, LCSMatchesBuffer(s, aIndices, bIndices, count, x, x))
		got := make([]uint64, 9)
		require.NoError(t, out.CopyTo(s, got))
		require.Equal(t, []uint64{0, 1, 2, 3, 0, 1, 2, 3, 4}, got)
		require.NoError(t, out.Free())
		require.ErrorIs(t, LCSMatchesBuffer(s, aIndices, bIndices, count, x, x), driver.ErrClosed)
		require.NoError(t, x.Free())
		require.NoError(t, s.Close())
	})
}

// TestLCSOutOfMemory: whichever allocation of a division fails, the call says so and
// nothing is left.
func TestLCSOutOfMemory(t *testing.T) {
	ways, halved := lcsWays, lcsHalved
	defer func() { lcsWays, lcsHalved = ways, halved }()
	dev, err := cpu.Open(cpu.WithMemoryChecks())
	require.NoError(t, err)
	const plenty = 1 << 30
	d := &stingy{Device: dev, left: plenty}
	rt := NewRuntime(d)
	r := rand.New(rand.NewPCG(1, 11))
	a, b := randomTokens[uint16](r, 5*512+1, 9), randomTokens[uint16](r, 99, 9)
	lcsWays = 2
	for _, lcsHalved = range []int64{0, 1 << 30} {
		for allowed := 0; ; allowed++ {
			s, err := NewStream(rt)
			require.NoError(t, err)
			d.left = allowed
			_, _, err = s.lcsMarks(t.Context(), 2, lcsRows(2), bytesOf(a), bytesOf(b))
			d.left = plenty
			require.NoError(t, s.Close())
			if err == nil {
				require.Greater(t, allowed, 5)
				break
			}
			require.ErrorIs(t, err, driver.ErrOutOfMemory)
			require.Less(t, allowed, 50)
		}
	}
	require.NoError(t, rt.Close())
}

// TestLCSMatchesBufferMemory writes all or nothing, however much memory there is.
func TestLCSMatchesBufferMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	x, y := randomTokens[uint8](r, 50, 4), randomTokens[uint8](r, 1<<17, 4)
	for limit, done := int64(1<<20), false; !done; limit += 1 << 18 {
		rt, err := runtimeOn(cpu.Open(cpu.WithMemoryChecks(), cpu.WithMemoryLimit(limit)))
		require.NoError(t, err)
		s, err := NewStream(rt)
		require.NoError(t, err)
		a, err := NewBufferFrom(s, x)
		require.NoError(t, err)
		b, err := NewBufferFrom(s, y)
		require.NoError(t, err)
		before := slices.Repeat([]uint64{1 << 40}, 2*len(x)+1)
		out, err := NewBufferFrom(s, before)
		require.NoError(t, err)
		part := func(from, to int) *Buffer[uint64] {
			p, err := out.Slice(from, to)
			require.NoError(t, err)
			return p
		}
		err = LCSMatchesBuffer(s, part(0, len(x)), part(len(x), 2*len(x)), part(2*len(x), len(before)), a, b)
		got := make([]uint64, len(before))
		require.NoError(t, out.CopyTo(s, got))
		if done = err == nil; done {
			require.NotContains(t, got, before[0])
		} else {
			require.ErrorIs(t, err, driver.ErrOutOfMemory)
			require.Equal(t, before, got, "a limit of %d bytes", limit)
		}
		closeAll(t, s)
		for _, free := range []interface{ Free() error }{a, b, out} {
			require.NoError(t, free.Free())
		}
		closeAll(t, rt)
	}
}

func TestLCSConcurrent(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		var calls sync.WaitGroup
		for k := range 6 {
			calls.Go(func() {
				r := rand.New(rand.NewPCG(uint64(k), 5))
				a, b := randomTokens[uint32](r, 1100, 50), randomTokens[uint32](r, 100+k, 50)
				_, want := referenceLCS(a, b)
				got, err := LCSMatches(context.Background(), rt, a, b)
				assert.NoError(t, err)
				assert.Equal(t, want, got)
				m, err := LCSMatrix(context.Background(), rt, [][]uint32{a[:50], b}, [][]uint32{a})
				assert.NoError(t, err)
				assert.Equal(t, [][]uint32{{lengthLCS(a[:50], a)}, {lengthLCS(b, a)}}, m)
			})
		}
		calls.Wait()
	})
}

func FuzzLCS(f *testing.F) {
	dev, err := cpu.Open(cpu.WithMemoryChecks())
	rt, err := runtimeOn(dev, err)
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, rt.Close()) })
	f.Add([]byte("XMJYAUZ"), []byte("MZJAWXU"))
	f.Add([]byte(strings.Repeat("ab", 40)), []byte(strings.Repeat("ba", 33)))
	f.Add([]byte{}, []byte{0})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if len(a) > 1500 || len(b) > 1500 {
			return
		}
		checkLCS(t, rt, a, b, "%q %q", a, b)
		m, err := LCSSelfMatrix(t.Context(), rt, [][]byte{a, b})
		require.NoError(t, err)
		n := lengthLCS(a, b)
		require.Equal(t, [][]uint32{{uint32(len(a)), n}, {n, uint32(len(b))}}, m)
	})
}

// TestLCSPlan lays out problems without a device.
func TestLCSPlan(t *testing.T) {
	problems := []twin.LCSProblem{{Rows: 10 * 1024, Columns: 1000, Front: 10, Back: 10, Keep: 3}, {Rows: 5, Columns: 33, Front: 1}}
	w := lcsPlan(problems, 1024, 100, 1<<20)
	require.Equal(t, []any{int64(21), int64(21)}, []any{w.units, w.blocks})
	require.Equal(t, []uint64{0, 20}, []uint64{problems[0].Units, problems[1].Units})
	require.Equal(t, []uint64{0, 3 * 32, 32}, []uint64{problems[0].KeptFront, problems[0].KeptBack, problems[0].Stride})
	require.Equal(t, uint64(3), problems[1].Crossings)
	require.Equal(t, []uint64{10, 1}, []uint64{problems[0].Slots, problems[1].Slots})
	require.Equal(t, uint64(2*10*32), problems[1].Ring)
	require.Equal(t, w.ringAt+align256(2*10*32*8), w.problemsAt)
	require.Equal(t, w.keptAt+align256(2*3*32*4), w.size)
	for _, at := range []int64{w.lengthsAt, w.problemsAt, w.keptAt, w.ringAt} {
		require.Zero(t, at%256)
	}
	// With room for the carries of 4 bands of each problem, 3 blocks.
	w = lcsPlan(problems, 1024, 100, 4*2*32*8)
	require.Equal(t, int64(3), w.blocks)
	require.Equal(t, []uint64{4, 1}, []uint64{problems[0].Slots, problems[1].Slots})
	w = lcsPlan(problems, 1024, 100, 1)
	require.Equal(t, int64(1), w.blocks)
	require.Equal(t, []uint64{2, 1}, []uint64{problems[0].Slots, problems[1].Slots})
}
