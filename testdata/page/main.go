// Command page draws testdata/declaration.bmp: the opening of declaration.txt as
// a printed page of A4 at 96 dots an inch, in black and white, one byte a dot,
// with a frame, a rule and a star. It is what a document scanner makes.
//
// It is a module of its own because only this picture needs fonts. To draw it
// again: cd testdata/page && go run .
package main

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"log"
	"math"
	"os"
	"strings"

	"golang.org/x/image/bmp"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/gofont/gosmallcaps"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

const (
	width, height = 794, 1123
	margin        = 72
	bodySize      = 13
	leading       = 25
)

func main() {
	if err := run("../declaration.txt", "../declaration.bmp"); err != nil {
		log.Fatal(err)
	}
}

func run(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	page := image.NewGray(image.Rect(0, 0, width, height))
	draw.Draw(page, page.Bounds(), image.White, image.Point{}, draw.Src)
	outline(page, page.Bounds().Inset(24), 2)
	outline(page, page.Bounds().Inset(30), 1)
	star(page, width/2, 70, 18)

	title, err := face(gosmallcaps.TTF, 17)
	if err != nil {
		return err
	}
	body, err := face(goregular.TTF, bodySize)
	if err != nil {
		return err
	}
	heading, paragraphs := split(string(text))
	print(page, title, (width-font.MeasureString(title, heading).Round())/2, 128, heading)
	fill(page, image.Rect(margin, 146, width-margin, 147))
	y := 184
	for _, p := range paragraphs {
		for _, line := range wrap(body, p, width-2*margin) {
			if y < height-margin {
				print(page, body, margin, y, line)
			}
			y += leading
		}
		y += leading / 2
	}
	for i, v := range page.Pix {
		page.Pix[i] = v >> 7 * 255
	}

	var out bytes.Buffer
	if err := bmp.Encode(&out, page); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

func face(ttf []byte, size float64) (font.Face, error) {
	f, err := opentype.Parse(ttf)
	if err != nil {
		return nil, err
	}
	return opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: 96, Hinting: font.HintingFull})
}

// split returns the first line and the paragraphs after it.
func split(text string) (heading string, paragraphs []string) {
	for p := range strings.SplitSeq(text, "\n\n") {
		if words := strings.Join(strings.Fields(p), " "); words != "" {
			paragraphs = append(paragraphs, words)
		}
	}
	return paragraphs[0], paragraphs[1:]
}

// wrap breaks p into lines at most limit pixels wide.
func wrap(f font.Face, p string, limit int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(p) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && font.MeasureString(f, longer).Ceil() > limit {
			lines, longer = append(lines, line), word
		}
		line = longer
	}
	return append(lines, line)
}

func print(page draw.Image, f font.Face, x, y int, s string) {
	d := font.Drawer{Dst: page, Src: image.Black, Face: f, Dot: fixed.P(x, y)}
	d.DrawString(s)
}

func fill(page draw.Image, r image.Rectangle) {
	draw.Draw(page, r, image.NewUniform(color.Black), image.Point{}, draw.Src)
}

func outline(page draw.Image, r image.Rectangle, thick int) {
	fill(page, image.Rect(r.Min.X, r.Min.Y, r.Max.X, r.Min.Y+thick))
	fill(page, image.Rect(r.Min.X, r.Max.Y-thick, r.Max.X, r.Max.Y))
	fill(page, image.Rect(r.Min.X, r.Min.Y, r.Min.X+thick, r.Max.Y))
	fill(page, image.Rect(r.Max.X-thick, r.Min.Y, r.Max.X, r.Max.Y))
}

// star draws a filled five-pointed star around (x, y).
func star(page draw.Image, x, y, radius float64) {
	r := vector.NewRasterizer(width, height)
	for i := range 10 {
		sin, cos := math.Sincos(float64(i) * math.Pi / 5)
		reach := radius
		if i%2 == 1 {
			reach *= 0.38
		}
		px, py := float32(x+reach*sin), float32(y-reach*cos)
		if i == 0 {
			r.MoveTo(px, py)
		} else {
			r.LineTo(px, py)
		}
	}
	r.ClosePath()
	r.Draw(page, page.Bounds(), image.Black, image.Point{})
}
