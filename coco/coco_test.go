package coco

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

func openDevice(t testing.TB) *ptxrun.Runtime {
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

// The examples of the COCO API's documentation of its mask functions.
func TestDefinition(t *testing.T) {
	for _, c := range []struct {
		column []uint8
		counts []uint32
	}{
		{[]uint8{0, 0, 1, 1, 1, 0, 1}, []uint32{2, 3, 1, 1}},
		{[]uint8{1, 1, 1, 1, 1, 1, 0}, []uint32{0, 6, 1}},
	} {
		m, err := Encode(c.column, 7, 1)
		require.NoError(t, err)
		assert.Equal(t, Mask{7, 1, c.counts}, m)
		got, err := m.Decode()
		require.NoError(t, err)
		assert.Equal(t, c.column, got)
	}
}

// Masks of the COCO API's example results
// (results/instances_val2014_fakesegm100_results.json). Their pixels are what
// its own functions decode them to: rows from and to, of each column.
var published = []struct {
	height, width int
	counts        string
	left          int
	columns       [][2]int
}{
	{427, 640, `hhQ32Y==B0;Ed]W5`, 234, [][2]int{{202, 204}, {202, 217}, {201, 216}, {211, 215}}},
	{480, 640, `_n<7i>0001O00` + "`fl8", 27, [][2]int{{303, 310}, {303, 310}, {303, 310}, {304, 310}, {304, 310}}},
	{480, 640, `]Rj02l>200001Odb_8`, 55, [][2]int{{301, 303}, {299, 303}, {299, 303}, {299, 303}, {300, 303}}},
}

func TestPublished(t *testing.T) {
	rt := openDevice(t)
	for _, c := range published {
		bitmap := make([]uint8, c.height*c.width)
		for x, rows := range c.columns {
			for y := rows[0]; y < rows[1]; y++ {
				bitmap[y*c.width+c.left+x] = 255
			}
		}
		m, err := Encode(bitmap, c.height, c.width)
		require.NoError(t, err)
		assert.Equal(t, c.counts, string(AppendCounts(nil, m.Counts)))
		on, err := EncodeOn(context.Background(), rt, bitmap, c.height, c.width)
		require.NoError(t, err)
		assert.Equal(t, m, on)
		counts, err := ParseCounts(c.counts)
		require.NoError(t, err)
		got, err := Mask{c.height, c.width, counts}.Decode()
		require.NoError(t, err)
		for i := range bitmap {
			require.Equal(t, bitmap[i] != 0, got[i] == 1, "pixel %d", i)
		}
	}
}

// What the COCO API's functions write for counts that masks seldom have.
func TestCounts(t *testing.T) {
	for want, counts := range map[string][]uint32{
		"":                                nil,
		"231N":                            {2, 3, 1, 1},
		"061":                             {0, 6, 1},
		"61X13mN000`0":                    {6, 1, 40, 4, 5, 4, 5, 4, 21},
		"oooooo3":                         {1<<32 - 1},
		`PeQ31PeQ3nooooo1P[nLaPPPPPN?a0B`: {100000, 1, 100000, 1<<31 - 1, 0, 16, 15, 33, 1},
	} {
		assert.Equal(t, want, string(AppendCounts(nil, counts)))
		got, err := ParseCounts(want)
		require.NoError(t, err, want)
		assert.Equal(t, counts, got)
	}
	for s, want := range map[string]string{
		"2 3":        `' ' at 1`,
		"23\x7f":     `'\x7f' at 2`,
		"23P":        "count 2 is cut off",
		"PPPPPPP0":   "count 0 has more than 7 characters",
		"oooooo7":    "count 0 is 8589934591",
		"O":          "count 0 is -1",
		"000o":       "count 3 is cut off",
		"000N":       "count 3 is -2",
		"0oooooo301": "count 3 is 4294967296",
	} {
		_, err := ParseCounts(s)
		require.ErrorIs(t, err, driver.ErrCorrupt, s)
		assert.ErrorContains(t, err, want, s)
	}
}

func TestRoundTrip(t *testing.T) {
	rt := openDevice(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][2]int{{0, 0}, {0, 5}, {1, 1}, {1, 100}, {100, 1}, {63, 65}, {64, 64}, {130, 67}} {
		for _, mean := range []int{0, 1, 2, 50} {
			bitmap := make([]uint8, size[0]*size[1])
			for i := range bitmap {
				if mean > 0 && i > 0 {
					bitmap[i] = bitmap[i-1]
				}
				if mean > 0 && r.IntN(mean) == 0 {
					bitmap[i] = uint8(r.IntN(2))
				}
			}
			m, err := Encode(bitmap, size[0], size[1])
			require.NoError(t, err)
			on, err := EncodeOn(context.Background(), rt, bitmap, size[0], size[1])
			require.NoError(t, err)
			require.Equal(t, m, on)
			got, err := m.Decode()
			require.NoError(t, err)
			require.Equal(t, bitmap, got)
			b, err := json.Marshal(m)
			require.NoError(t, err)
			var again Mask
			require.NoError(t, json.Unmarshal(b, &again))
			require.Equal(t, m, again)
		}
	}
}

func TestJSON(t *testing.T) {
	want := Mask{Height: 7, Width: 1, Counts: []uint32{2, 3, 1, 1}}
	for _, s := range []string{`{"size":[7,1],"counts":"231N"}`, `{"counts":[2,3,1,1],"size":[7,1]}`} {
		var m Mask
		require.NoError(t, json.Unmarshal([]byte(s), &m))
		assert.Equal(t, want, m)
	}
	b, err := json.Marshal(want)
	require.NoError(t, err)
	assert.JSONEq(t, `{"size":[7,1],"counts":"231N"}`, string(b))
	m := want
	for _, s := range []string{
		`{"size":[7,1],"counts":"231"}`, `{"size":[7,1],"counts":[7,1]}`, `{"size":[7,1]}`, `{"size":[7,1],"counts":[-7]}`,
		`{"size":[7,1],"counts":[4294967296]}`, `{"size":[-7,-1],"counts":[7]}`, `{"size":[4294967296,4294967296],"counts":[0]}`,
		`{"size":[7],"counts":[7]}`, `{"size":[7,1,1],"counts":[7]}`, `{"size":[],"counts":[]}`, `{"counts":""}`,
		`{"size":[7,1],"counts":{}}`, `{"size":[7,1],"counts":"\u00e9"}`,
	} {
		assert.Error(t, json.Unmarshal([]byte(s), &m), s)
	}
	assert.Equal(t, want, m, "a failure changes nothing")
	err = json.Unmarshal([]byte(`{"size":[7,1],"counts":[8]}`), &m)
	require.ErrorIs(t, err, driver.ErrCorrupt)
	require.ErrorContains(t, err, "coco.UnmarshalJSON")
}

// A mask without pixels takes no time, however many rows or columns it has.
func TestNoPixels(t *testing.T) {
	rt := openDevice(t)
	for _, size := range [][2]int{{0, math.MaxInt}, {math.MaxInt, 0}, {1 << 62, 0}} {
		m, err := Encode(nil, size[0], size[1])
		require.NoError(t, err)
		on, err := EncodeOn(context.Background(), rt, nil, size[0], size[1])
		require.NoError(t, err)
		require.Equal(t, m, on)
		b, err := json.Marshal(m)
		require.NoError(t, err)
		var again Mask
		require.NoError(t, json.Unmarshal(b, &again))
		bitmap, err := again.Decode()
		require.NoError(t, err)
		require.Empty(t, bitmap)
	}
}

func TestArguments(t *testing.T) {
	rt := openDevice(t)
	for _, size := range [][2]int{{2, 3}, {-1, -6}, {1 << 40, 1 << 40}, {-6, 1}} {
		_, err := Encode(make([]uint8, 7), size[0], size[1])
		require.ErrorIs(t, err, driver.ErrLength)
		_, err = EncodeOn(context.Background(), rt, make([]uint8, 7), size[0], size[1])
		require.ErrorIs(t, err, driver.ErrLength)
	}
	_, err := EncodeOn(context.Background(), nil, nil, 0, 0)
	require.ErrorIs(t, err, driver.ErrNil)
	for _, counts := range [][]uint32{nil, {5}, {7}, {1<<32 - 1, 1<<32 - 1}} {
		_, err := Mask{2, 3, counts}.Decode()
		require.ErrorIs(t, err, driver.ErrCorrupt)
	}
}

// Any text is refused, or its counts survive being written.
func FuzzParseCounts(f *testing.F) {
	for _, c := range published {
		f.Add(c.counts)
	}
	f.Add("oooooo3")
	f.Add(strings.Repeat("P", 8))
	f.Fuzz(func(t *testing.T, s string) {
		counts, err := ParseCounts(s)
		if err != nil {
			require.ErrorIs(t, err, driver.ErrCorrupt)
			return
		}
		b := AppendCounts(nil, counts)
		require.LessOrEqual(t, len(b), len(s), "not the shortest")
		again, err := ParseCounts(string(b))
		require.NoError(t, err)
		require.Equal(t, counts, again)
		sum := uint64(0)
		for _, n := range counts {
			sum += uint64(n)
		}
		if sum > 1<<16 || sum == 0 {
			return
		}
		m := Mask{Height: 1, Width: int(sum), Counts: counts}
		bitmap, err := m.Decode()
		require.NoError(t, err)
		shortest, err := Encode(bitmap, 1, int(sum))
		require.NoError(t, err)
		got, err := shortest.Decode()
		require.NoError(t, err)
		require.Equal(t, bitmap, got)
	})
}
