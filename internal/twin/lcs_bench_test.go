package twin

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkLCSRows is one core over 10^5 × 10^5 letters.
func BenchmarkLCSRows(b *testing.B) {
	const n = 100_000
	for name, letters := range map[string]int{"4": 4, "200": 200} {
		b.Run(name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			x, y := make([]byte, n), make([]byte, n)
			for i := range n {
				x[i], y[i] = byte(r.IntN(letters)), byte(r.IntN(letters))
			}
			problems := []LCSProblem{{Rows: n, Columns: n, Front: (n + 1023) / 1024}}
			for b.Loop() {
				var rows lcsRows[byte]
				for _, u := range lcsUnits(problems, nil, 1024, 1) {
					lcsSweep(u, &rows, x, y)
				}
			}
			b.ReportMetric(float64(n)*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "GCUPS")
		})
	}
}
