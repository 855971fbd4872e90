package ptxrun

import (
	"errors"
	"maps"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
	"github.com/ptxrun/ptxrun/ptx/aggregate"
)

// rewriteKey finds a rewritten kernel by what it was made from.
type rewriteKey struct {
	hash   [32]byte
	kernel string
	coarse bool
}

type rewritten struct {
	text  []byte
	entry *aggregate.Entry
}

// aggregated returns a kernel's aggregated entry, and the module that has only it
// if it was not loaded with the kernel.
func (m *Module) aggregated(kernel string, coarse bool) (*Kernel, driver.Module, error) {
	if v := aggregate.Global(m.file); v != nil && (coarse || m.beside[kernel] == nil) {
		return nil, nil, driver.Errorf("", driver.ErrNotSupported, "%s:%v: %s is in global memory, and a module of %s alone would have its own; "+
			"load the module WithAggregated, and without coarsening", m.name, v.Pos, v.Name, kernel)
	}
	if e := m.beside[kernel]; e != nil && !coarse {
		k, err := m.mod.Kernel(e.Name)
		if err != nil {
			return nil, nil, err
		}
		a, err := newKernel(m, e, k)
		return a, nil, err
	}
	key := rewriteKey{m.hash, kernel, coarse}
	if _, ok := m.rt.rewrites.Load(key); !ok {
		f, entries, err := aggregate.Rewrite(m.file, aggregate.Options{Name: m.name, Coarse: coarse}, kernel)
		if err != nil {
			return nil, nil, err
		}
		m.rt.rewrites.Store(key, rewritten{[]byte(f.String()), entries[0]})
	}
	v, _ := m.rt.rewrites.Load(key)
	r := v.(rewritten)
	img := driver.Image{Name: m.name + ", aggregated", PTX: r.text, Twins: map[string]driver.Twin{}}
	if t := m.twins[kernel]; t != nil {
		img.Twins[r.entry.Name] = aggregatedTwin(t, r.entry)
	}
	mod, err := m.rt.dev.Load(img)
	if err != nil {
		return nil, nil, err
	}
	k, err := mod.Kernel(r.entry.Name)
	if err != nil {
		return nil, nil, errors.Join(err, mod.Close())
	}
	a, err := newKernel(m, r.entry, k)
	if err != nil {
		return nil, nil, errors.Join(err, mod.Close())
	}
	return a, mod, nil
}

// withAggregated is the module with the aggregated version of some entries beside
// them.
func (m *Module) withAggregated(kernels []string) (driver.Image, error) {
	f, entries, err := aggregate.Rewrite(m.file, aggregate.Options{Name: m.name, Keep: true}, kernels...)
	if err != nil {
		return driver.Image{}, err
	}
	img := driver.Image{Name: m.name, PTX: []byte(f.String()), Twins: maps.Clone(m.twins)}
	m.beside = map[string]*aggregate.Entry{}
	for i, e := range entries {
		m.beside[kernels[i]] = e
		if t := m.twins[kernels[i]]; t != nil {
			img.Twins[e.Name] = aggregatedTwin(t, e)
		}
	}
	return img, nil
}

// aggregatedTwin is the Go form of an aggregated entry: the kernel's twin, once
// for each child.
func aggregatedTwin(kernel driver.Twin, e *aggregate.Entry) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		g := aggregate.Unpack(&l.Args, len(e.Params))
		at := func(c aggregate.Column, child int64, size int) ([]byte, error) {
			return l.Mem.Resolve(c.Base+driver.Ptr(child*int64(c.Stride)), int64(size))
		}
		end := g.End
		if t := &g.Taking; t.Queue != 0 {
			n, err := twin.TakeQueue(l, t, end)
			if err != nil {
				return err
			}
			end = n
		}
		var block uint64
		for child := int64(0); block < end && (g.Owners != 0 || child < int64(g.Children)); child++ {
			b, err := at(g.Configs, child, aggregate.ConfigBytes)
			if err != nil {
				return err
			}
			c := aggregate.GetConfig(b)
			n := c.Grid.Count()
			start := block
			block += n
			if n == 0 || start < g.First {
				continue // of a launch before this one
			}
			a := driver.NewArgs()
			for i, p := range e.Params {
				if b, err = at(g.Args[i], child, p.Size); err != nil {
					a.Release()
					return err
				}
				a.Bytes(b, p.Align)
			}
			err = kernel(&driver.TwinLaunch{Config: c, Args: a.Reader(), Mem: l.Mem, Parallel: l.Parallel})
			a.Release()
			if err != nil {
				return childError(err, child, c)
			}
		}
		return nil
	}
}
