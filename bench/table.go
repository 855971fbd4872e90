package main

import (
	"fmt"
	"io"
	"maps"
	"math/bits"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

var columns = []string{"id", "n", "ours", "peer", "", "rate", "ratio", "of copy"}

// cells are a row's, under columns.
func (r Row) cells() []string {
	cells := []string{r.ID, count(r.N), duration(r.OursMS), "", "", number4(r.Rate) + " " + r.Unit, "", ""}
	if r.Peer != "" {
		cells[3], cells[4] = duration(r.PeerMS), r.Peer
		cells[6] = fmt.Sprintf("%.2f", r.Ratio)
	}
	if r.OfCeiling != 0 {
		cells[7] = fmt.Sprintf("%.1f%%", 100*r.OfCeiling)
	}
	return cells
}

// count is a number of elements, none if it is not known.
func count(n int64) string {
	switch {
	case n == 0:
		return ""
	case n >= 1024 && n&(n-1) == 0:
		return fmt.Sprintf("2^%d", bits.TrailingZeros64(uint64(n)))
	}
	return strconv.FormatInt(n, 10)
}

// duration is a number of milliseconds for a person.
func duration(ms float64) string {
	if ms < 1 {
		return number4(1000*ms) + " µs"
	}
	return number4(ms) + " ms"
}

// number4 is x to four digits, and to the unit beyond.
func number4(x float64) string {
	if x >= 1000 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// writeText prints the results for a terminal.
func writeText(w io.Writer, r Results) error {
	for _, k := range slices.Sorted(maps.Keys(r.Machine)) {
		fmt.Fprintf(w, "# %s: %s\n", k, r.Machine[k])
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, strings.Join(columns, "\t")+"\t")
	for _, row := range r.Rows {
		fmt.Fprintln(t, strings.Join(row.cells(), "\t")+"\t")
	}
	return t.Flush()
}

// markdown is the results as a page. source is the results file, plot the
// picture of it.
func markdown(r Results, source, plot string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- Made by bench -render %s; do not edit. -->\n# %s\n\n", filepath.Base(source), r.Machine["gpu"])
	b.WriteString("| | |\n|---|---|\n")
	for _, k := range slices.Sorted(maps.Keys(r.Machine)) {
		fmt.Fprintf(&b, "| %s | %s |\n", k, escape(r.Machine[k]))
	}
	b.WriteString("\nours and peer are medians of one call; rate is ours; ratio is the peer's time over ours, above 1 where ours is faster;\n" +
		"of copy is the rate as a part of what a copy on the device moves.\n\n" +
		"![Rates of ours and of the peers](" + filepath.Base(plot) + ")\n\n")
	b.WriteString("| " + strings.Join(columns, " | ") + " |\n|---" + strings.Repeat("|--:", 3) + "|---" + strings.Repeat("|--:", 3) + "|\n")
	for _, row := range r.Rows {
		cells := row.cells()
		for i := range cells {
			cells[i] = escape(cells[i])
		}
		cells[0] = "`" + row.ID + "`"
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}

// escape keeps text from ending a cell of a Markdown table.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}
