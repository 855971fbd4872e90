package emu_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
	"github.com/ptxrun/ptxrun/ptx"
)

func TestScanQuick(t *testing.T) {
	d, err := emu.Open()
	require.NoError(t, err)
	text, _, err := ptx.Source("scan_sum_u32", 70)
	require.NoError(t, err)
	m, err := d.Load(driver.Image{Name: "scan", PTX: text})
	require.NoError(t, err)
	k, err := m.Kernel("scan_downsweep_sum_u32")
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	n := 4096 + 17
	in, err := d.Alloc(int64(4 * n))
	require.NoError(t, err)
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(i))
	}
	require.NoError(t, s.CopyToDevice(in, b))
	a := driver.NewArgs().Ptr(in).Ptr(in).Uint64(uint64(n)).Ptr(0).Uint32(7).Uint32(0)
	require.NoError(t, s.Launch(k, driver.Config{Grid: driver.D1(2), Block: driver.D1(256)}, a))
	require.NoError(t, s.Synchronize())
	require.NoError(t, s.CopyToHost(b, in))
	sum := uint32(7)
	for i := range n {
		if i == 4096 { sum = 7 }
		sum += uint32(i)
		require.Equal(t, sum, binary.LittleEndian.Uint32(b[4*i:]), i)
	}
}
