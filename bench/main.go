// Command bench measures ptxrun on one device and sets each figure beside its
// peer's, measured in the same run on the same device and the same data.
//
//	bench -out results.json       measures
//	bench -render results.json    makes results.md and results.svg from it
//
// README.md says what is measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

// run measures what the arguments say, prints the table to stdout and progress
// to stderr. What could be measured is printed and written though the rest
// failed, or a signal ends it while peers run.
func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	device := flags.String("device", "cuda:0", "the device to measure")
	out := flags.String("out", "", "write the results to this JSON `file`")
	add := flags.Bool("add", false, "keep the rows of the -out file that this run does not measure; it must be of the same machine")
	only := flags.String("run", ".", "measure the figures whose id matches this regular `expression`")
	commit := flags.String("commit", builtCommit(), "the commit that is measured, for the results")
	scale := flags.Int("scale", 0, "divide the sizes by 2 to this power, for a trial run on a slow device")
	render := flags.String("render", "", "make a table and a plot of this results `file`, and measure nothing")
	var peers peerList
	flags.Var(&peers, "peer", "`NAME=COMMAND` of a peer program that prints figures as JSON lines; may be repeated; by default those that lie beside this program")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("argument %q is not a flag", flags.Arg(0))
	}
	if *render != "" {
		return renderFiles(*render)
	}
	if *scale < 0 || *scale > 30 {
		return fmt.Errorf("-scale %d; it is 0 to 30", *scale)
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	var before Results
	if *add {
		if before, err = load(*out); err != nil {
			return err
		}
	}

	rt, err := ptxrun.Open(ptxrun.WithDevice(*device))
	if err != nil {
		return err
	}
	info := rt.Info()
	if peers == nil && info.Kind == driver.KindCUDA {
		peers = peersBeside()
	}
	b := &bencher{rt: rt, match: match, scale: *scale, log: stderr}
	results, err := b.all()
	errs := []error{err, rt.Close()}
	results.Machine["commit"] = *commit
	for i := range results.Rows {
		results.Rows[i].Commit = *commit
	}
	// After each peer, and what one printed before a signal, so that a run that is
	// cut off leaves what it has.
	sofar, err := complete(results, before, *add, *out)
	errs = append(errs, err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, p := range peers {
		fmt.Fprintln(stderr, "peer", p.name)
		errs = append(errs, p.measure(ctx, &results, info.Ordinal, *scale, stderr))
		sofar, err = complete(results, before, *add, *out)
		errs = append(errs, err)
	}
	errs = append(errs, writeText(stdout, sofar))
	return errors.Join(errs...)
}

// complete returns results with what follows from their rows, and with the rows of
// before that they do not have if add is set, and saves them in out if that is named.
func complete(results, before Results, add bool, out string) (Results, error) {
	results.Machine, results.Rows = maps.Clone(results.Machine), slices.Clone(results.Rows)
	var err error
	if add {
		err = results.keep(before)
	}
	results.setCeiling()
	results.setExamples()
	if out != "" {
		err = errors.Join(err, results.save(out))
	}
	return results, err
}
