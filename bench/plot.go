package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// renderFiles makes NAME.md and NAME.svg of NAME.json.
func renderFiles(path string) error {
	r, err := load(path)
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(path, filepath.Ext(path))
	var image bytes.Buffer
	if err := picture(&image, r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return errors.Join(
		os.WriteFile(base+".svg", image.Bytes(), 0o644),
		os.WriteFile(base+".md", []byte(markdown(r, path, base+".svg")), 0o644),
	)
}

// The curve is the figures of one id at many sizes.
const curvePrefix = "scan/uint32/2^"

// Sizes of the picture. Panels stand one below the other.
const (
	pictureWidth = 640
	margin       = 10
	headHeight   = 34
	entryHeight  = 14 // of the legend
	curveHeight  = 320
	pointHeight  = 15 // of an id
	axisHeight   = 60 // of a panel's axis and its label
)

// Colours that also the colour-blind tell apart, after Okabe and Ito.
var (
	oursColor    = color.RGBA{R: 0, G: 114, B: 178, A: 255}
	peerColors   = []color.RGBA{{R: 213, G: 94, B: 0, A: 255}, {R: 0, G: 158, B: 115, A: 255}, {R: 204, G: 121, B: 167, A: 255}}
	ceilingColor = color.Gray{Y: 110}
	gridColor    = color.Gray{Y: 225}
)

// panel is a plot and its height.
type panel struct {
	*plot.Plot
	height vg.Length
}

// picture draws the results as SVG: rates over n for the curve, and for each unit
// the rates of the other ids.
func picture(w io.Writer, r Results) error {
	var curve []Row
	units := map[string][]Row{}
	var order []string
	for _, row := range r.Rows {
		if strings.HasPrefix(row.ID, curvePrefix) {
			curve = append(curve, row)
			continue
		}
		if units[row.Unit] == nil {
			order = append(order, row.Unit)
		}
		units[row.Unit] = append(units[row.Unit], row)
	}
	names := append([]string{""}, peerNames(r.Rows)...)
	ceiling := ceilingRate(r.Rows)
	var panels []panel
	if len(curve) > 0 {
		p, err := curvePanel(curve, names, ceiling)
		if err != nil {
			return err
		}
		panels = append(panels, p)
	}
	for _, unit := range order {
		p, err := pointPanel(units[unit], unit, names, ceiling)
		if err != nil {
			return err
		}
		panels = append(panels, p)
	}
	if len(panels) == 0 {
		return errors.New("there is nothing to draw")
	}
	key := legend(names, ceiling > 0)
	height := headHeight + entryHeight*vg.Length(len(names)+1)
	top := height
	for _, p := range panels {
		height += p.height
	}
	canvas := vgsvg.New(pictureWidth, height)
	rest := draw.New(canvas)
	rest.SetColor(color.White)
	rest.Fill(rest.Rectangle.Path())
	rest = draw.Crop(rest, margin, -margin, 0, 0)
	title := plot.New().Title.TextStyle
	title.Font = sans(14)
	title.YAlign = draw.YTop
	rest.FillText(title, vg.Point{X: rest.Center().X, Y: rest.Max.Y - margin}, r.Machine["gpu"])
	key.Draw(draw.Crop(rest, 0, 0, height-top, -headHeight))
	rest = draw.Crop(rest, 0, 0, 0, -top)
	for _, p := range panels {
		p.Draw(draw.Crop(rest, 0, 0, rest.Max.Y-rest.Min.Y-p.height+margin, 0))
		rest = draw.Crop(rest, 0, 0, 0, -p.height)
	}
	_, err := canvas.WriteTo(w)
	return err
}

func peerNames(rows []Row) (names []string) {
	for _, row := range rows {
		if row.Peer != "" && row.Unit == "GB/s" && !slices.Contains(names, row.Peer) {
			names = append(names, row.Peer)
		}
	}
	return names
}

// ceilingRate is the copy's, 0 if it is not known.
func ceilingRate(rows []Row) float64 {
	for _, row := range rows {
		if row.OfCeiling > 0 {
			return row.Rate / row.OfCeiling
		}
	}
	return 0
}

func newPlot() *plot.Plot {
	p := plot.New()
	for _, f := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font} {
		*f = sans(f.Size)
	}
	return p
}

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// legend names the series.
func legend(names []string, ceiling bool) plot.Legend {
	l := plot.NewLegend()
	l.TextStyle.Font = sans(10)
	l.Top, l.Left = true, true
	for i, name := range names {
		l.Add(seriesName(name), &plotter.Scatter{GlyphStyle: glyph(i)})
	}
	if ceiling {
		l.Add("a copy on the device", &plotter.Line{LineStyle: ceilingStyle()})
	}
	return l
}

// curvePanel draws rates over n.
func curvePanel(rows []Row, series []string, ceiling float64) (panel, error) {
	p := newPlot()
	rows = slices.SortedFunc(slices.Values(rows), func(a, b Row) int { return int(a.N - b.N) })
	p.X.Label.Text, p.Y.Label.Text = "elements", "GB/s"
	p.Title.Text = "inclusive sum of uint32"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Min, p.X.Max = float64(rows[0].N)/1.3, float64(rows[len(rows)-1].N)*1.3
	p.X.Tick.Marker = plot.TickerFunc(powersOfTwo)
	p.Y.Tick.Marker = plot.TickerFunc(decades)
	grid(p)
	for i, name := range series {
		var points plotter.XYs
		for _, row := range rows {
			if rate := row.rateOf(name); rate > 0 {
				points = append(points, plotter.XY{X: float64(row.N), Y: rate})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return panel{}, err
		}
		line.Width = 1.5
		line.Color, marks.GlyphStyle = seriesColor(i), glyph(i)
		p.Add(line, marks)
	}
	p.Y.Min, p.Y.Max = logRange(p.Y.Min, max(p.Y.Max, ceiling))
	if ceiling > 0 {
		line, err := plotter.NewLine(plotter.XYs{{X: p.X.Min, Y: ceiling}, {X: p.X.Max, Y: ceiling}})
		if err != nil {
			return panel{}, err
		}
		line.LineStyle = ceilingStyle()
		p.Add(line)
	}
	return panel{p, curveHeight}, nil
}

// pointPanel draws the rates of ids, one below the other.
func pointPanel(rows []Row, unit string, series []string, ceiling float64) (panel, error) {
	p := newPlot()
	p.X.Label.Text = unit
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = plot.TickerFunc(decades)
	var labels plot.ConstantTicks
	for i, row := range rows {
		labels = append(labels, plot.Tick{Value: float64(len(rows) - 1 - i), Label: row.ID})
	}
	p.Y.Tick.Marker = labels
	p.Y.Tick.Length = 0
	grid(p)
	for i, name := range series {
		var points plotter.XYs
		for k, row := range rows {
			if rate := row.rateOf(name); rate > 0 {
				points = append(points, plotter.XY{X: rate, Y: float64(len(rows) - 1 - k)})
			}
		}
		if len(points) == 0 {
			continue
		}
		marks, err := plotter.NewScatter(points)
		if err != nil {
			return panel{}, err
		}
		marks.GlyphStyle = glyph(i)
		p.Add(marks)
	}
	if unit != "GB/s" {
		ceiling = 0
	}
	p.X.Min, p.X.Max = logRange(p.X.Min, max(p.X.Max, ceiling))
	p.Y.Min, p.Y.Max = -0.7, float64(len(rows))-0.3
	if ceiling > 0 {
		line, err := plotter.NewLine(plotter.XYs{{X: ceiling, Y: p.Y.Min}, {X: ceiling, Y: p.Y.Max}})
		if err != nil {
			return panel{}, err
		}
		line.LineStyle = ceilingStyle()
		p.Add(line)
	}
	return panel{p, axisHeight + pointHeight*vg.Length(len(rows))}, nil
}

// rateOf is the rate of a series: ours, "", or a peer's.
func (r Row) rateOf(series string) float64 {
	switch series {
	case "":
		return r.Rate
	case r.Peer:
		return r.PeerRate()
	}
	return 0
}

func seriesName(series string) string {
	if series == "" {
		return "ptxrun"
	}
	return series
}

func seriesColor(i int) color.Color {
	if i == 0 {
		return oursColor
	}
	return peerColors[(i-1)%len(peerColors)]
}

// glyph is a filled circle for ours and open ones for peers, so that both are
// seen where they coincide.
func glyph(i int) draw.GlyphStyle {
	g := draw.GlyphStyle{Color: seriesColor(i), Radius: 3, Shape: draw.CircleGlyph{}}
	if i > 0 {
		g.Radius, g.Shape = 4, draw.RingGlyph{}
	}
	return g
}

func ceilingStyle() draw.LineStyle {
	return draw.LineStyle{Color: ceilingColor, Width: 1, Dashes: []vg.Length{4, 3}}
}

func grid(p *plot.Plot) {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = gridColor, gridColor
	p.Add(g)
}

// logRange widens a range on a log axis a little, and to a decade at least.
func logRange(from, to float64) (float64, float64) {
	factor := max(1.3, math.Sqrt(10*from/to))
	return from / factor, to * factor
}

// decades are ticks at 1, 2 and 5 times the powers of ten.
func decades(from, to float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(from)); e <= math.Ceil(math.Log10(to)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= from && v <= to {
				ticks = append(ticks, plot.Tick{Value: v, Label: number4(v)})
			}
		}
	}
	return ticks
}

// powersOfTwo are ticks at even powers of two.
func powersOfTwo(from, to float64) (ticks []plot.Tick) {
	for e := 0; e < 63; e += 2 {
		if v := math.Exp2(float64(e)); v >= from && v <= to {
			ticks = append(ticks, plot.Tick{Value: v, Label: "2" + superscript(e)})
		}
	}
	return ticks
}

func superscript(n int) string {
	digits := []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")
	var s []rune
	for _, d := range fmt.Sprint(n) {
		s = append(s, digits[d-'0'])
	}
	return string(s)
}
