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

// File to file, with the data in page cache: 256 MiB of runs of the mean length.
// Files are written in place, since taking page cache anew takes longer.
func BenchmarkFile(b *testing.B) {
	for _, mean := range []int{1, 2, 16, 256, 65536} {
		b.Run(fmt.Sprint(mean), func(b *testing.B) { benchmarkFile(b, mean) })
	}
}

func benchmarkFile(b *testing.B, mean int) {
	rt, err := ptxrun.Open()
	require.NoError(b, err)
	defer rt.Close()
	raw := make([]byte, 256<<20)
	r := rand.New(rand.NewPCG(1, uint64(mean)))
	for at, v := 0, byte(0); at < len(raw); v++ {
		for end := at + 1 + r.IntN(2*mean-1); at < min(end, len(raw)); at++ {
			raw[at] = v
		}
	}
	name := filepath.Join(b.TempDir(), "raw")
	require.NoError(b, os.WriteFile(name, raw, 0o600))
	open := func(name string) *os.File {
		f, err := os.Open(name)
		require.NoError(b, err)
		return f
	}
	create := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
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
	decompress := func(b *testing.B, w io.Writer) {
		in := open(name + ".rle")
		z, err := NewReader(context.Background(), rt, in)
		require.NoError(b, err)
		_, err = z.WriteTo(w)
		require.NoError(b, err)
		require.NoError(b, z.Close())
		require.NoError(b, in.Close())
	}
	compress(b)
	b.Run("compress", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			compress(b)
		}
	})
	b.Run("decompress", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			out := create(name + ".out")
			decompress(b, out)
			require.NoError(b, out.Close())
		}
	})
	b.Run("decompress-file", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			in, out := open(name+".rle"), create(name+".out")
			info, err := in.Stat()
			require.NoError(b, err)
			f, err := Open(context.Background(), rt, in, info.Size())
			require.NoError(b, err)
			_, err = f.WriteTo(out)
			require.NoError(b, err)
			require.NoError(b, f.Close())
			require.NoError(b, in.Close())
			require.NoError(b, out.Close())
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			decompress(b, io.Discard)
		}
	})
}
