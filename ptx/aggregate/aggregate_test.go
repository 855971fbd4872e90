package aggregate_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
	"github.com/ptxrun/ptxrun/ptx/aggregate"
	"github.com/ptxrun/ptxrun/ptx/ast"
)

//go:generate sh testdata/build.sh

const (
	programs  = "testdata/children.ptx"
	functions = "testdata/functions.ptx"
)

// mix is a parameter of the kernel position.
type mix struct {
	v    [5]uint32
	tail uint8
	_    [3]byte
}

// shape is a random grid or block of at most n, in one to three dimensions.
func shape(r *rand.Rand, n uint32) driver.Dim3 {
	d := driver.Dim3{X: 1, Y: 1, Z: 1}
	for _, side := range []*uint32{&d.X, &d.Y, &d.Z}[:1+r.IntN(3)] {
		*side = 1 + r.Uint32N(max(n/uint32(d.Count()), 1))
	}
	if r.IntN(2) == 0 {
		d.X, d.Y = d.Y, d.X
	}
	return d
}

// family makes random children of one kernel, of elements of size bytes.
type family struct {
	file   string
	kernel string
	size   int
	coarse bool
	config func(r *rand.Rand, c *driver.Config)
	args   func(r *rand.Rand, c driver.Config, in, out driver.Ptr) [][]byte
}

var families = []family{
	{file: programs, kernel: "position", size: 8, coarse: true, args: func(r *rand.Rand, c driver.Config, in, out driver.Ptr) [][]byte {
		m := mix{tail: uint8(r.Uint32())}
		for i := range m.v {
			m.v[i] = r.Uint32()
		}
		return [][]byte{word(out), word(uint8(r.Uint32())), word(m), word(float64(r.IntN(1000))), word(uint16(r.Uint32()))}
	}},
	{file: functions, kernel: "functions", size: 4, args: func(r *rand.Rand, c driver.Config, in, out driver.Ptr) [][]byte {
		return [][]byte{word(out), word(r.Uint32N(9))}
	}},
	{file: programs, kernel: "reversed", size: 4, config: func(r *rand.Rand, c *driver.Config) {
		c.Grid, c.Block = driver.D1(uint32(c.Grid.Count())), driver.D1(uint32(c.Block.Count()))
		c.Shared = int64(4*c.Block.X) + int64(r.IntN(3)*64)
	}, args: func(r *rand.Rand, c driver.Config, in, out driver.Ptr) [][]byte {
		return [][]byte{word(in), word(out)}
	}},
	{file: programs, kernel: "added", size: 4, coarse: true, config: func(r *rand.Rand, c *driver.Config) {
		c.Grid, c.Block = driver.D1(uint32(c.Grid.Count())), driver.D1(uint32(c.Block.Count()))
	}, args: func(r *rand.Rand, c driver.Config, in, out driver.Ptr) [][]byte {
		n := c.Grid.Count() * c.Block.Count()
		return [][]byte{word(out), word(uint32(n) - r.Uint32N(min(uint32(n), 7)+1)), word(uint32(7))}
	}},
}

// children are n launches whose elements lie one behind the other in out.
func (f *family) children(r *rand.Rand, n int, in, out driver.Ptr, most uint32) (list []child, elements int) {
	like := driver.Config{Grid: shape(r, 9), Block: shape(r, most)}
	alike := r.IntN(4) == 0
	for range n {
		c := child{Config: like}
		if !alike {
			c.Config = driver.Config{Grid: shape(r, 9), Block: shape(r, most)}
		}
		if f.config != nil {
			f.config(r, &c.Config)
		}
		if !alike && r.IntN(5) == 0 {
			c.Grid.Y = 0
		}
		at := driver.Ptr(elements * f.size)
		c.args = f.args(r, c.Config, in+at, out+at)
		elements += int(c.Grid.Count() * c.Block.Count())
		list = append(list, c)
	}
	return list, elements
}

// TestEqualsSeparateLaunches launches random children of each kernel as one, and
// requires what separate launches leave in memory.
func TestEqualsSeparateLaunches(t *testing.T) {
	for _, fam := range families {
		f := parse(t, fam.file)
		for _, coarse := range []bool{false, true} {
			if coarse && !fam.coarse {
				continue
			}
			t.Run(fmt.Sprintf("%s coarse %v", fam.kernel, coarse), func(t *testing.T) {
				rewritten, entries, err := aggregate.Rewrite(f, aggregate.Options{Keep: true, Coarse: coarse}, fam.kernel)
				require.NoError(t, err)
				e := entries[0]
				assert.Equal(t, e.Kernel+aggregate.Suffix, e.Name)
				rig := newRig(t, emu.WithRaceCheck(), emu.WithInitCheck())
				original, m := rig.load(f), rig.load(rewritten)
				for i, n := range []int{1, 2, 5, 31, 32, 33, 60, 1, 3} {
					random := rand.New(rand.NewPCG(uint64(i), 5))
					most := uint32(100)
					if n > 30 {
						most = 36
					}
					list, elements := fam.children(random, n, 0, 0, most)
					data := make([]byte, elements*fam.size)
					for i := range data {
						data[i] = byte(random.Uint32())
					}
					in := rig.upload(data)
					run := func(f func(list []child) error) []byte {
						out := rig.upload(data)
						list, _ := fam.children(rand.New(rand.NewPCG(uint64(i), 5)), n, in, out, most)
						require.NoError(t, f(list))
						return rig.download(out, len(data))
					}
					want := run(func(list []child) error { return rig.separate(rig.kernel(original, fam.kernel), e, list) })
					for _, part := range []uint64{0, 7} {
						if part > 0 && n > 32 {
							continue
						}
						for _, owned := range []bool{false, true} {
							got := run(func(list []child) error { return rig.together(rig.kernel(m, e.Name), e, list, part, owned) })
							require.True(t, bytes.Equal(want, got), "%d children, owned %v, %d blocks a launch: %v", n, owned, part, list)
						}
					}
					kept := run(func(list []child) error { return rig.separate(rig.kernel(m, fam.kernel), e, list) })
					require.True(t, bytes.Equal(want, kept), "the entry that is kept")
					rig.release()
				}
				require.NoError(t, original.Close())
				require.NoError(t, m.Close())
			})
		}
	}
}

// TestTaking launches ahead of queues that the launch may run whole, in part, or not
// for one of the reasons there are. Each is empty then, and the host has seen it.
func TestTaking(t *testing.T) {
	f := parse(t, programs)
	rewritten, entries, err := aggregate.Rewrite(f, aggregate.Options{}, "added")
	require.NoError(t, err)
	rig := newRig(t, emu.WithRaceCheck(), emu.WithInitCheck())
	m := rig.load(rewritten)
	defer m.Close()
	const n, room = 150, 200 // blocks of a child each, and of the launch
	type queue struct {
		count, blocks, groups, capacity uint64
		threads, shared, bytes, wrong   uint32
		pointers                        [5]uint64
		room                            uint64
	}
	for i, c := range []struct {
		change func(q *queue)
		run    int
	}{
		{func(q *queue) {}, n},
		{func(q *queue) { q.blocks, q.room = room+100, room+100 }, room},
		{func(q *queue) { q.capacity-- }, 0},
		{func(q *queue) { q.room-- }, 0},
		{func(q *queue) { q.threads++ }, 0},
		{func(q *queue) { q.shared++ }, 0},
		{func(q *queue) { q.groups = 1 }, 0},
		{func(q *queue) { q.wrong = 4 }, 0},
	} {
		q := queue{count: n, blocks: n, capacity: n, threads: 32, shared: 16, room: n, pointers: [5]uint64{1 << 40}}
		c.change(&q)
		empty := queue{capacity: n, pointers: [5]uint64{1 << 41}}
		out := rig.upload(make([]byte, 4*room))
		var owners, starts, configs, at []byte
		for k := range uint32(room) {
			owners, starts = append(owners, word(k)...), append(starts, word(uint64(k))...)
			configs = append(configs, make([]byte, aggregate.ConfigBytes)...)
			aggregate.PutConfig(configs[int(k)*aggregate.ConfigBytes:], driver.Config{Grid: driver.D1(1), Block: driver.D1(1)})
			at = append(at, word(out+driver.Ptr(4*k))...)
		}
		l := aggregate.Launch{End: room, Starts: rig.upload(starts), Owners: rig.upload(owners),
			Configs: aggregate.Column{Base: rig.upload(configs), Stride: aggregate.ConfigBytes},
			Args:    []aggregate.Column{{Base: rig.upload(at), Stride: 8}, {Base: rig.upload(word(uint32(1)))}, {Base: rig.upload(word(uint32(7)))}},
			Taking: aggregate.Taking{Queue: rig.upload(word(q)), Empty: rig.upload(word(empty)), Gates: rig.upload(make([]byte, aggregate.GateBytes)),
				Seen: rig.upload(make([]byte, 8*aggregate.SeenWords)), Mark: 1<<31 + uint32(i)}}
		a := l.Pack()
		require.NoError(t, rig.s.Launch(rig.kernel(m, entries[0].Name), driver.Config{Grid: driver.D1(room), Block: driver.D1(32), Shared: 16}, a))
		a.Release()
		require.NoError(t, rig.s.Synchronize())

		assert.Equal(t, word(empty), rig.download(l.Taking.Queue, 4*aggregate.QueueWords), "queue %d", i)
		want := make([]byte, 0, 8*aggregate.SeenWords)
		for _, half := range slices.Collect(slices.Chunk(append(word(q), word(uint32(c.run))...), 4)) {
			want = append(append(want, half...), word(l.Taking.Mark)...)
		}
		assert.Equal(t, want, rig.download(l.Taking.Seen, len(want)), "queue %d", i)
		for k, got := range slices.Collect(slices.Chunk(rig.download(out, 4*room), 4)) {
			require.Equal(t, k < c.run, binary.LittleEndian.Uint32(got) != 0, "queue %d, block %d", i, k)
		}
		rig.release()
	}
}

// TestAhead: what a launch ahead does needs sm_70.
func TestAhead(t *testing.T) {
	for target, ahead := range map[string]bool{"sm_61": false, "sm_70": true, "sm_90a": true, "sm_103": true} {
		f, err := ast.Parse("m", []byte(".version 8.7\n.target "+target+"\n.address_size 64\n.entry k() { ret; }"))
		require.NoError(t, err)
		out, entries, err := aggregate.Rewrite(f, aggregate.Options{}, "k")
		require.NoError(t, err)
		assert.Equal(t, ahead, entries[0].Ahead, target)
		assert.Equal(t, ahead, strings.Contains(out.String(), "ld.acquire"), target)
	}
}

// TestManyChildren searches in several rounds.
func TestManyChildren(t *testing.T) {
	f := parse(t, programs)
	rewritten, entries, err := aggregate.Rewrite(f, aggregate.Options{}, "added")
	require.NoError(t, err)
	rig := newRig(t)
	m := rig.load(rewritten)
	defer m.Close()
	const n = 33_000
	r := rand.New(rand.NewPCG(1, 1))
	out := rig.upload(make([]byte, 4*n))
	list := make([]child, n)
	for i := range list {
		list[i] = child{driver.Config{Grid: driver.D1(1), Block: driver.D1(1)},
			[][]byte{word(out + driver.Ptr(4*i)), word(uint32(1)), word(uint32(i))}}
		if r.IntN(3) > 0 {
			list[i].Grid.X = 0
		}
	}
	require.NoError(t, rig.together(rig.kernel(m, entries[0].Name), entries[0], list, 0, false))
	got := rig.download(out, 4*n)
	for i, c := range list {
		want := uint32(i)
		if c.Grid.X == 0 {
			want = 0
		}
		require.Equal(t, word(want), got[4*i:4*i+4], i)
	}
}

const head = ".version 8.0\n.target sm_90\n.address_size 64\n"

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{".entry k(.param .u64 a) { .reg .b32 %r<2>;\nmov.u32 %r1, %clusterid.x; ret; }", "m.ptx:5:14: clusters (%clusterid.x)"},
		{".entry k() {\n griddepcontrol.wait; ret; }", "m.ptx:5:2: griddepcontrol.wait: a child is no launch that others depend on"},
		{".entry k() {\n barrier.cluster.arrive; ret; }", "m.ptx:5:2: clusters (barrier.cluster.arrive)"},
		{".entry k() { .reg .b32 %r<2>;\nmov.u32 %r1, %envreg2; ret; }", "m.ptx:5:14: %envreg2: by these a grid is synchronised as a whole"},
		{".entry k() { .reg .b32 %r<2>;\nmov.u32 %r1, %total_smem_size; ret; }", "m.ptx:5:14: %total_smem_size is the aggregated launch's, not the child's"},
		{".entry k(.param .u32 a) { .reg .b32 %r<2>;\nmov.u32 %r1, a; ret; }", "m.ptx:5:1: the address of the parameter a in a register of less than 64 bits"},
		{".entry k(.param .u64 a) { .reg .b64 %r<2>;\nadd.s64 %r1, %r0, a; ret; }", "m.ptx:5:19: the address of the parameter a"},
		{".entry k(.param .u64 a) { .reg .b64 %r<2>;\nmov.u64 %r1, generic(a)+8; ret; }", "m.ptx:5:22: the address of the parameter a"},
		{".entry k(.param .texref a) { ret; }", "m.ptx:4:25: the parameter a of type .texref has no size"},
		{".entry k() .reqnctapercluster 2 { ret; }", "m.ptx:4:12: clusters of more than one block"},
		{".entry k() .maxntid 4096 { ret; }", "m.ptx:4:12: .maxntid of 4096 is more than 1024 threads"},
		{".func f() {\n griddepcontrol.launch_dependents; ret; }\n.entry k() { call f; ret; }", "m.ptx:5:2: griddepcontrol.launch_dependents"},
		{".func f() { .reg .b32 %r<2>; .reg .b64 %d<2>;\n ld.param::entry.u32 %r1, [%d1]; ret; }\n.entry k() { call f; ret; }", "m.ptx:5:2: a function that reads a parameter of the kernel"},
		{".entry k() { .reg .pred %p<2>; .reg .b64 %d<2>;\n isspacep.param %p1, %d1; ret; }", "m.ptx:5:2: isspacep.param: a child's parameters are in global memory"},
		{".entry k() { ret; } .entry k_aggregated() { ret; }", "m.ptx:4:1: the module has a k_aggregated of its own"},
		{".entry k() { .reg .b32 %r<5>;\nmov.v4.u32 {%r1,%r2,%r3,%r4}, %tid; ret; }", "m.ptx:5:31: %tid as a vector"},
		{".entry k(" + strings.Repeat(".param .u8 a,", 338) + ".param .u8 b) { ret; }", "m.ptx:4:1: 339 parameters; the most is 333"},
		{".entry k() { ret; } .func g() { ret; }", ""},
	} {
		f, err := ast.Parse("m.ptx", []byte(head+c.text))
		require.NoError(t, err, c.text)
		_, _, err = aggregate.Rewrite(f, aggregate.Options{Name: "m.ptx"}, "k")
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, driver.ErrNotSupported, c.text)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "[kernel k")
	}
	f, err := ast.Parse("m.ptx", []byte(head+".entry k() { ret; } .func g() { ret; }"))
	require.NoError(t, err)
	for _, name := range []string{"", "g", "other"} {
		_, _, err = aggregate.Rewrite(f, aggregate.Options{}, name)
		require.ErrorIs(t, err, driver.ErrNotFound)
		_, err = aggregate.Describe(f, "", name)
		require.ErrorIs(t, err, driver.ErrNotFound)
	}
	for _, text := range []string{"bar.sync 0;", "barrier.sync.aligned 1;", ".shared .b32 s;", "mov.u32 %r1, v;"} {
		f, err := ast.Parse("m.ptx", []byte(head+".shared .b32 v;.entry k() { .reg .b32 %r<2>; "+text+" ret; }"))
		require.NoError(t, err)
		_, _, err = aggregate.Rewrite(f, aggregate.Options{Coarse: true}, "k")
		require.ErrorIs(t, err, driver.ErrNotSupported, text)
	}
}

func TestDescription(t *testing.T) {
	e, err := aggregate.Describe(parse(t, programs), "", "position")
	require.NoError(t, err)
	want := []aggregate.Param{{Offset: 0, Size: 8, Align: 8}, {Offset: 8, Size: 1, Align: 1}, {Offset: 12, Size: 24, Align: 4}, {Offset: 40, Size: 8, Align: 8}, {Offset: 48, Size: 2, Align: 2}}
	for i := range want {
		want[i].Name = fmt.Sprintf("position_param_%d", i)
	}
	assert.Equal(t, want, e.Params)
	assert.Equal(t, 50, e.Bytes())

	f, err := ast.Parse("", []byte(head+".entry k() .reqntid 33, 2 .minnctapersm 2 { ret; }"))
	require.NoError(t, err)
	out, entries, err := aggregate.Rewrite(f, aggregate.Options{}, "k")
	require.NoError(t, err)
	assert.Equal(t, driver.Dim3{X: 33, Y: 2, Z: 1}, entries[0].Block)
	assert.Equal(t, 66, entries[0].MaxThreads)
	assert.Contains(t, out.String(), ".reqntid 96, 1, 1 .minnctapersm 2")
	assert.Nil(t, out.Func("k"), "entries are dropped unless they are kept")
}

// TestNamesThatAreTaken rewrites what was rewritten before.
func TestNamesThatAreTaken(t *testing.T) {
	once, entries, err := aggregate.Rewrite(parse(t, functions), aggregate.Options{}, "functions")
	require.NoError(t, err)
	twice, _, err := aggregate.Rewrite(once, aggregate.Options{Keep: true}, entries[0].Name)
	require.NoError(t, err)
	rig := newRig(t)
	require.NoError(t, rig.load(twice).Close())
}

// corpus is every PTX file of the repository.
func corpus(t testing.TB) (files []string) {
	for _, pattern := range []string{"../sm_*/*.ptx", "../../driver/emu/testdata/*.ptx", "testdata/*.ptx"} {
		m, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, m...)
	}
	return files
}

// TestRewritesCorpus rewrites every kernel there is. None is refused, and what
// comes out parses and prints the same again.
func TestRewritesCorpus(t *testing.T) {
	kernels := 0
	for _, name := range corpus(t) {
		if testing.Short() && strings.Contains(name, "scan_") && !strings.Contains(name, "sum_u32") {
			continue
		}
		f := parse(t, name)
		for _, d := range f.Decls {
			k, ok := d.(*ast.Func)
			if !ok || !k.Entry {
				continue
			}
			out, entries, err := aggregate.Rewrite(f, aggregate.Options{Name: name}, k.Name)
			require.NoError(t, err)
			require.NotNil(t, out.Func(entries[0].Name))
			text := out.String()
			again, err := ast.Parse("rewritten", []byte(text))
			require.NoError(t, err)
			require.Equal(t, text, again.String())
			kernels++
		}
	}
	require.Greater(t, kernels, 40)
}

func BenchmarkRewrite(b *testing.B) {
	for _, name := range []string{"../sm_70/scan_pass_sum_u32.ptx", "../sm_90/select_bulk_u32.ptx", programs} {
		text, err := os.ReadFile(name)
		require.NoError(b, err)
		f := parse(b, name)
		var kernel string
		for _, d := range f.Decls {
			if k, ok := d.(*ast.Func); ok && k.Entry {
				kernel = k.Name
			}
		}
		b.Run(filepath.Base(name), func(b *testing.B) {
			for b.Loop() {
				f, err := ast.Parse(name, text)
				require.NoError(b, err)
				out, _, err := aggregate.Rewrite(f, aggregate.Options{}, kernel)
				require.NoError(b, err)
				if len(out.String()) == 0 {
					b.Fatal("nothing")
				}
			}
		})
	}
}

func FuzzRewrite(f *testing.F) {
	for _, name := range []string{programs, functions} {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(text, true, false)
	}
	f.Add([]byte(head+".func f() { .reg .b32 %r<2>; mov.u32 %r1, %tid.y; ret; } .global .u64 t[1] = {f}; .entry k() { .reg .b64 %d<2>; P: .callprototype _ (); ld.global.u64 %d1, [t]; call %d1, P; }"), true, false)
	f.Add([]byte(head+".entry k(.param .u64 a) .maxntid 33 { .reg .b64 %r<3>; mov.u64 %r1, a+8; { .param .b64 a; ld.param.u64 %r2, [a]; } ld.param.v2.u64 {%r1, %r2}, [a]; }"), false, true)
	f.Fuzz(func(t *testing.T, text []byte, keep, coarse bool) {
		tree, err := ast.Parse("fuzz", text)
		if err != nil {
			return
		}
		for _, d := range tree.Decls {
			k, ok := d.(*ast.Func)
			if !ok || !k.Entry {
				continue
			}
			before := tree.String()
			out, _, err := aggregate.Rewrite(tree, aggregate.Options{Keep: keep, Coarse: coarse}, k.Name)
			require.Equal(t, before, tree.String(), "the input is not changed")
			if err != nil {
				require.IsType(t, &driver.Error{}, err)
				continue
			}
			_, err = ast.Parse("rewritten", []byte(out.String()))
			require.NoError(t, err)
		}
	})
}
