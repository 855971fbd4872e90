//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/driver/cuda/fake"
)

func TestArgumentPacking(t *testing.T) {
	d := open(t)
	s, k := newStream(t, d), kernel(t, load(t, d), "pack")
	a := driver.NewArgs()
	defer a.Release()
	a.Bytes([]byte{0x11}, 1).Bytes([]byte{0x22, 0x23}, 2).Bytes([]byte{0x33}, 1).
		Uint32(0x44454647).Uint64(0x5152535455565758).Float32(1.5).Float64(-2.25).
		Bytes([]byte("twelve bytes"), 4).Bytes([]byte("sixteen bytes at"), 16).Bytes([]byte{0x99}, 1)
	c := driver.Config{Grid: driver.Dim3{X: 7, Y: 2, Z: 3}, Block: driver.Dim3{X: 64, Y: 4, Z: 1}, Shared: 4096, N: 99}
	require.NoError(t, s.Launch(k, c, a))

	want := make([]byte, 81)
	want[0], want[2], want[3], want[4] = 0x11, 0x22, 0x23, 0x33
	binary.LittleEndian.PutUint32(want[8:], 0x44454647)
	binary.LittleEndian.PutUint64(want[16:], 0x5152535455565758)
	binary.LittleEndian.PutUint32(want[24:], math.Float32bits(1.5))
	binary.LittleEndian.PutUint64(want[32:], math.Float64bits(-2.25))
	copy(want[40:], "twelve bytes")
	copy(want[64:], "sixteen bytes at")
	want[80] = 0x99
	assert.Equal(t, []fake.Launch{{Kernel: "pack", Grid: c.Grid, Block: c.Block, Shared: 4096, Args: want}}, fake.Launches())

	require.NoError(t, s.Launch(kernel(t, load(t, d), "none"), driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, driver.NewArgs()))
	assert.Empty(t, fake.Launches()[1].Args)
}

func TestLaunchAllocatesNothing(t *testing.T) {
	d := open(t)
	s, k := newStream(t, d), kernel(t, load(t, d), "copy")
	a := driver.NewArgs().Ptr(1).Uint64(2).Uint32(3)
	c := driver.Config{Grid: driver.D1(4), Block: driver.D1(128)}
	var err error
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if e := s.Launch(k, c, a); e != nil {
			err = e
		}
	}))
	assert.NoError(t, err)
}

type foreignKernel struct{ driver.Kernel }

func (foreignKernel) Name() string { return "foreign" }

// What is wrong before the driver sees it names the launch.
func TestLaunchErrors(t *testing.T) {
	d := open(t)
	other, err := cuda.Open(1)
	require.NoError(t, err)
	s, k := newStream(t, d), kernel(t, load(t, d), "copy")
	good := driver.Config{Grid: driver.D1(4), Block: driver.D1(128), N: 500}
	args := driver.NewArgs().Ptr(1).Uint64(2).Uint32(3)

	with := func(f func(c *driver.Config)) driver.Config {
		c := good
		f(&c)
		return c
	}
	for name, l := range map[string]struct {
		k    driver.Kernel
		c    driver.Config
		a    *driver.Args
		code driver.Code
		says string
	}{
		"nil kernel":       {nil, good, args, driver.ErrNil, "the kernel"},
		"foreign kernel":   {foreignKernel{}, good, args, driver.ErrWrongDevice, "kernel foreign"},
		"another device":   {kernel(t, load(t, other), "copy"), good, args, driver.ErrWrongDevice, "the kernel"},
		"nil arguments":    {k, good, nil, driver.ErrNil, "the arguments"},
		"grid.x 0":         {k, with(func(c *driver.Config) { c.Grid.X = 0 }), args, driver.ErrInvalidValue, "a zero in grid"},
		"grid.y 0":         {k, with(func(c *driver.Config) { c.Grid.Y = 0 }), args, driver.ErrInvalidValue, "a zero in grid"},
		"grid.z 0":         {k, with(func(c *driver.Config) { c.Grid.Z = 0 }), args, driver.ErrInvalidValue, "a zero in grid"},
		"block.x 0":        {k, with(func(c *driver.Config) { c.Block.X = 0 }), args, driver.ErrInvalidValue, "a zero in grid"},
		"block.z 0":        {k, with(func(c *driver.Config) { c.Block.Z = 0 }), args, driver.ErrInvalidValue, "a zero in grid"},
		"shared negative":  {k, with(func(c *driver.Config) { c.Shared = -1 }), args, driver.ErrInvalidValue, "-1 bytes"},
		"shared too large": {k, with(func(c *driver.Config) { c.Shared = 1 << 32 }), args, driver.ErrInvalidValue, "4294967296 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, since(func() { fails(t, s.Launch(l.k, l.c, l.a), l.code, l.says) }))
		})
	}

	err = s.Launch(k, with(func(c *driver.Config) { c.Block.X = 4096 }), args)
	fails(t, err, driver.ErrInvalidValue, "[kernel copy, grid 4×1×1, block 4096×1×1, n 500]")
	assert.Empty(t, fake.Launches())
	assert.NoError(t, other.Close())
}

// Where the driver tells a kernel's parameters, arguments are held against them;
// where it does not, the driver's own check of the total is all there is.
func TestArgumentMismatch(t *testing.T) {
	d := open(t)
	s, k := newStream(t, d), kernel(t, load(t, d), "copy")
	c := driver.Config{Grid: driver.D1(1), Block: driver.D1(1), N: 3}
	for says, a := range map[string]*driver.Args{
		"0 arguments for 3 parameters":                               driver.NewArgs(),
		"2 arguments for 3 parameters":                               driver.NewArgs().Ptr(1).Uint64(2),
		"4 arguments for 3 parameters":                               driver.NewArgs().Ptr(1).Uint64(2).Uint32(3).Uint32(4),
		"argument 1 has 4 bytes at offset 8, the parameter 8 at 8":   driver.NewArgs().Ptr(1).Uint32(2).Uint32(3),
		"argument 0 has 1 bytes at offset 0, the parameter 8 at 0":   driver.NewArgs().Bytes([]byte{1}, 1).Uint64(2).Uint32(3),
		"argument 2 has 8 bytes at offset 16, the parameter 4 at 16": driver.NewArgs().Ptr(1).Uint64(2).Uint64(3),
		"argument 2 has 4 bytes at offset 32, the parameter 4 at 16": driver.NewArgs().Ptr(1).Uint64(2).Bytes(make([]byte, 4), 32),
	} {
		err := s.Launch(k, c, a)
		switch {
		case !oldDriver:
			fails(t, err, driver.ErrArguments, says)
			assert.Contains(t, err.Error(), "[kernel copy, grid 1×1×1, block 1×1×1, n 3]")
		case len(a.Buffer()) != 20:
			fails(t, err, driver.ErrInvalidValue, "kernel copy")
		}
	}
}

func TestKernelQueries(t *testing.T) {
	d := open(t)
	m := load(t, d)
	k := kernel(t, m, "copy")
	assert.Equal(t, "copy", k.Name())
	assert.Same(t, k, kernel(t, m, "copy"))

	a, err := k.Attributes()
	require.NoError(t, err)
	assert.Equal(t, driver.KernelAttributes{
		MaxThreads: 512, Registers: 40, SharedStatic: 1024, Local: 8, Const: 16, PTXVersion: 70, BinaryVersion: 90,
	}, a)

	blocks, err := k.Occupancy(256, 0)
	require.NoError(t, err)
	assert.Equal(t, 8, blocks)
	blocks, err = k.Occupancy(256, 64<<10)
	require.NoError(t, err)
	assert.Equal(t, 3, blocks)
	for _, threads := range []int{0, -1, 1 << 33} {
		_, err = k.Occupancy(threads, 0)
		fails(t, err, driver.ErrInvalidValue, "kernel copy")
	}
	_, err = k.Occupancy(32, -1)
	fails(t, err, driver.ErrInvalidValue, "-1 bytes")

	assert.NoError(t, k.SetMaxDynamicShared(226<<10))
	fails(t, k.SetMaxDynamicShared(226<<10+1), driver.ErrTooLarge, "of at most 231424")
	fails(t, k.SetMaxDynamicShared(-1), driver.ErrInvalidValue, "kernel copy")

	for _, name := range []string{"", "cop", "copy2", "copy\x00", "no such kernel"} {
		_, err := m.Kernel(name)
		fails(t, err, driver.ErrNotFound, `in image "test.ptx"`)
	}
}

func TestRefusedModules(t *testing.T) {
	d := open(t)
	image := func(ptx string) driver.Image { return driver.Image{Name: "bad.ptx", PTX: []byte(ptx)} }
	for _, ptx := range []string{"", "\x00"} {
		_, err := d.Load(image(ptx))
		fails(t, err, driver.ErrInvalidImage, `image "bad.ptx" holds no PTX`)
	}
	_, err := d.Load(image(".version 6.0\n\x00.target sm_70"))
	fails(t, err, driver.ErrInvalidImage, "NUL at byte 13")

	_, err = d.Load(image("this is no PTX"))
	fails(t, err, driver.ErrInvalidPTX, `image "bad.ptx"`)
	assert.Contains(t, err.(*driver.Error).Log, "Missing .version directive")

	fake.FailModules(driver.ErrPTXVersion, "ptxas: Unsupported .version 9.0; current version is '8.4'")
	_, err = d.Load(image(strings.Replace(ptx, "6.0", "9.0", 1)))
	fails(t, err, driver.ErrPTXVersion, "update the NVIDIA driver, or build the PTX for an older ISA")
	assert.Contains(t, err.Error(), ".version 9.0, .target sm_70, device sm_90, driver for CUDA 1")
	assert.Contains(t, err.Error(), "current version is '8.4'")

	fake.FailModules(driver.ErrNoBinaryForGPU, "")
	_, err = d.Load(image(ptx))
	fails(t, err, driver.ErrNoBinaryForGPU, ".target sm_70, device sm_90")
	assert.Empty(t, err.(*driver.Error).Log)

	fake.FailModules(0, "")
	m, err := d.Load(image(ptx + "\x00"))
	require.NoError(t, err)
	assert.NoError(t, m.Close())
}
