package rlefile

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
)

// File to file, data in page cache: compression and restoring of 256 MiB of runs
// of the mean length.
func BenchmarkFile(b *testing.B) {
	rt, err := ptxrun.Open()
	require.NoError(b, err)
	defer rt.Close()
	const n = 256 << 20
	for _, mean := range []int{1, 2, 16, 256, 65536} {
		raw := make([]byte, n)
		r := rand.New(rand.NewPCG(1, uint64(mean)))
		v := byte(0)
		for at := 0; at < n; v++ {
			for end := at + 1 + r.IntN(2*mean-1); at < min(end, n); at++ {
				raw[at] = v
			}
		}
		dir := b.TempDir()
		name := filepath.Join(dir, "raw")
		require.NoError(b, os.WriteFile(name, raw, 0o600))
		open := func(name string) *os.File {
			f, err := os.Open(name)
			require.NoError(b, err)
			return f
		}
		create := func(name string) *os.File {
			f, err := os.Create(name)
			require.NoError(b, err)
			return f
		}
		compress := func(b *testing.B) {
			in, out := open(name), create(name+".rle")
			z, err := NewWriter(context.Background(), rt, out, 1)
			require.NoError(b, err)
			_, err = z.ReadFrom(in)
			require.NoError(b, err)
			require.NoError(b, z.Close())
			require.NoError(b, in.Close())
			require.NoError(b, out.Close())
		}
		compress(b)
		b.Run(fmt.Sprintf("compress/%d", mean), func(b *testing.B) {
			b.SetBytes(n)
			for b.Loop() {
				compress(b)
			}
		})
		b.Run(fmt.Sprintf("decompress/%d", mean), func(b *testing.B) {
			b.SetBytes(n)
			for b.Loop() {
				in, out := open(name+".rle"), create(name+".out")
				z, err := NewReader(context.Background(), rt, in)
				require.NoError(b, err)
				_, err = z.WriteTo(out)
				require.NoError(b, err)
				require.NoError(b, z.Close())
				require.NoError(b, in.Close())
				require.NoError(b, out.Close())
			}
		})
		b.Run(fmt.Sprintf("verify/%d", mean), func(b *testing.B) {
			b.SetBytes(n)
			for b.Loop() {
				in := open(name + ".rle")
				z, err := NewReader(context.Background(), rt, in)
				require.NoError(b, err)
				_, err = z.WriteTo(io.Discard)
				require.NoError(b, err)
				require.NoError(b, z.Close())
				require.NoError(b, in.Close())
			}
		})
		require.NoError(b, os.RemoveAll(dir))
	}
}
