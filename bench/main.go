// Command bench measures ptxrun on one device and, where peers are given, sets
// each figure beside its peer's, measured in the same run on the same device and
// the same data.
//
//	bench -peer "path/to/peer" -out results.json
//
// Figures are medians of device events around the work, after a warm-up, on
// inputs larger than any cache. Every output is poisoned before and verified
// after.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// Row is a figure in the results.
type Row struct {
	ID        string  `json:"id"`
	N         int64   `json:"n"`
	OursMS    float64 `json:"ours_ms"`
	Rate      float64 `json:"rate"`
	Unit      string  `json:"unit"`
	Peer      string  `json:"peer,omitempty"`
	PeerMS    float64 `json:"peer_ms,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"` // peer_ms / ours_ms
	OfCeiling float64 `json:"of_ceiling,omitempty"`
	Commit    string  `json:"commit"`
}

// Results is a results file.
type Results struct {
	Machine map[string]string `json:"machine"`
	Rows    []Row             `json:"rows"`
}

// peerRow is a line that a peer program prints.
type peerRow struct {
	ID   string  `json:"id"`
	N    int64   `json:"n"`
	MS   float64 `json:"ms"`
	Rate float64 `json:"rate"`
	Unit string  `json:"unit"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	device := flags.String("device", "cuda:0", "the device to measure")
	out := flags.String("out", "", "write the results to this JSON file")
	only := flags.String("run", ".", "measure the figures whose id matches this regular expression")
	commit := flags.String("commit", "", "the commit that is measured, for the results")
	scale := flags.Int("scale", 0, "divide the sizes by 2 to this power, for a trial run on a slow device")
	var peers peerList
	flags.Var(&peers, "peer", "NAME=COMMAND of a peer program that prints figures as JSON lines; may be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}

	rt, err := ptxrun.Open(ptxrun.WithDevice(*device))
	if err != nil {
		return err
	}
	results := Results{Machine: machine(rt.Info())}
	b := &bencher{rt: rt, match: match, scale: *scale, commit: *commit}
	err = errors.Join(b.all(), rt.Close())
	if err != nil {
		return err
	}
	results.Rows = b.rows
	for _, p := range peers {
		if err := p.measure(&results, *only); err != nil {
			return err
		}
	}
	ceiling(results.Rows)
	printTable(results)
	if *out == "" {
		return nil
	}
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}

// bencher runs figures.
type bencher struct {
	rt     *ptxrun.Runtime
	s      *ptxrun.Stream
	match  *regexp.Regexp
	scale  int
	commit string
	rows   []Row

	start, stop driver.Event
}

func (b *bencher) all() (err error) {
	if b.s, err = ptxrun.NewStream(b.rt); err != nil {
		return err
	}
	for _, e := range []*driver.Event{&b.start, &b.stop} {
		if *e, err = b.rt.Device().NewEvent(true); err != nil {
			return err
		}
	}
	for _, group := range []func(*bencher) error{copyFigures, scanFigures, rleFigures, lcsFigures} {
		if err := group(b); err != nil {
			return err
		}
	}
	return errors.Join(b.start.Close(), b.stop.Close(), b.s.Close())
}

// wanted reports whether the figure is to be measured.
func (b *bencher) wanted(id string) bool { return b.match.MatchString(id) }

// Limits of one figure's repetitions.
const (
	maxRepetitions = 21
	minRepetitions = 3
	figureTime     = 3 * time.Second
)

// figure measures work: the median of its time on the device, host waits in
// between included. moved is in the unit's thousand millions: bytes for GB/s,
// cells for GCUPS.
func (b *bencher) figure(id string, n int64, moved float64, unit string, work func() error) error {
	if err := work(); err != nil { // warm-up: modules are loaded, memory pools filled
		return fmt.Errorf("%s: %w", id, err)
	}
	if err := b.s.Synchronize(); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	var times []float64
	for begin := time.Now(); len(times) < minRepetitions || len(times) < maxRepetitions && time.Since(begin) < figureTime; {
		ms, err := b.once(work)
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		times = append(times, ms)
	}
	slices.Sort(times)
	ms := times[len(times)/2]
	b.rows = append(b.rows, Row{ID: id, N: n, OursMS: ms, Rate: moved / ms / 1e6, Unit: unit, Commit: b.commit})
	return nil
}

func (b *bencher) once(work func() error) (float64, error) {
	s := b.s.Driver()
	if err := s.Record(b.start); err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	if err := s.Record(b.stop); err != nil {
		return 0, err
	}
	if err := b.stop.Synchronize(); err != nil {
		return 0, err
	}
	return b.stop.Since(b.start)
}

// ceiling sets each figure's part of the copy's rate.
func ceiling(rows []Row) {
	i := slices.IndexFunc(rows, func(r Row) bool { return strings.HasPrefix(r.ID, "copy/") })
	if i < 0 {
		return
	}
	for j := range rows {
		if rows[j].Unit == rows[i].Unit {
			rows[j].OfCeiling = rows[j].Rate / rows[i].Rate
		}
	}
}

type peer struct{ name, command string }

type peerList []peer

func (l *peerList) String() string { return fmt.Sprint([]peer(*l)) }

func (l *peerList) Set(v string) error {
	name, command, ok := strings.Cut(v, "=")
	if !ok {
		return errors.New("want NAME=COMMAND")
	}
	*l = append(*l, peer{name, command})
	return nil
}

// measure runs the peer and sets its figures beside ours of the same id.
func (p peer) measure(results *Results, only string) error {
	cmd := exec.Command("sh", "-c", p.command+` "$@"`, p.name, "-run", only)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("peer %s: %w", p.name, err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var r peerRow
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("peer %s printed %q: %w", p.name, lines.Text(), err)
		}
		i := slices.IndexFunc(results.Rows, func(ours Row) bool { return ours.ID == r.ID })
		if i < 0 {
			continue
		}
		ours := &results.Rows[i]
		if ours.N != r.N {
			return fmt.Errorf("peer %s measured %s at %d, ours is at %d", p.name, r.ID, r.N, ours.N)
		}
		ours.Peer, ours.PeerMS, ours.Ratio = p.name, r.MS, r.MS/ours.OursMS
	}
	return lines.Err()
}

// machine names what was measured.
func machine(info driver.Info) map[string]string {
	m := map[string]string{
		"device":     info.Name,
		"capability": fmt.Sprintf("sm_%d", info.Capability),
		"driver":     fmt.Sprintf("CUDA %d.%d", info.DriverVersion/1000, info.DriverVersion%1000/10),
		"command":    strings.Join(os.Args, " "),
		"date":       time.Now().UTC().Format(time.DateOnly),
	}
	for name, query := range map[string][]string{
		"nvidia-smi": {"nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,clocks.max.sm", "--format=csv,noheader"},
		"toolkit":    {"sh", "-c", "nvcc --version | tail -1"},
	} {
		if text, err := exec.Command(query[0], query[1:]...).Output(); err == nil {
			m[name] = strings.TrimSpace(string(text))
		}
	}
	return m
}

func printTable(r Results) {
	for _, k := range slices.Sorted(maps.Keys(r.Machine)) {
		fmt.Printf("# %s: %s\n", k, r.Machine[k])
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "id\tms\trate\tunit\tpeer\tpeer ms\tratio\tof ceiling\t")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%.4f\t%.1f\t%s\t%s\t%.4f\t%.2f\t%.2f\t\n",
			row.ID, row.OursMS, row.Rate, row.Unit, row.Peer, row.PeerMS, row.Ratio, row.OfCeiling)
	}
	w.Flush()
}
