package aggregate

import (
	"slices"
	"strings"

	"github.com/ptxrun/ptxrun/ptx/ast"
)

// This file says what is refused. A child has no grid of its own to be a cluster
// in, to be ordered by, or to be synchronised as a whole.

func (r *rewriter) checkDirective(d *ast.Directive) {
	switch d.Name {
	case "reqnctapercluster":
		for _, a := range d.Args {
			if a != "1" {
				r.refuse(d.Pos, "clusters of more than one block")
			}
		}
	case "explicitcluster", "maxclusterrank", "blocksareclusters":
		r.refuse(d.Pos, "clusters (.%s)", d.Name)
	}
}

// checkInstr refuses instructions without a meaning in an aggregated launch.
func (r *rewriter) checkInstr(in *ast.Instr) {
	switch {
	case in.Name == "griddepcontrol":
		r.refuse(in.Pos, "%s: a child is no launch that others depend on", in.Opcode())
	case in.Name == "mapa" || in.Name == "getctarank" || in.Name == "clusterlaunchcontrol",
		in.Name == "barrier" && in.Has("cluster"), in.Has("multicast::cluster"), in.Has("cta_group::2"):
		r.refuse(in.Pos, "clusters (%s)", in.Opcode())
	case in.Name == "tensormap" || in.Has("tensormap") || in.Name == "cp" && in.Has("tensor"):
		r.refuse(in.Pos, "%s: a tensor map must be a parameter of the kernel, and a child's parameters are in memory", in.Opcode())
	case in.Name == "isspacep" && (in.Has("param") || in.Has("param::entry")):
		r.refuse(in.Pos, "%s: a child's parameters are in global memory", in.Opcode())
	}
}

// checkName refuses special registers that have no value for a child, and
// parameters' names where load and move do not handle them.
func (b *body) checkName(o *ast.Ident) {
	name := o.Name
	switch {
	case b.hidden[name] > 0:
	case b.param(name) > 0:
		b.refuse(o.Pos, "the address of the parameter %s", name)
	case strings.HasPrefix(name, "%cluster"), strings.HasPrefix(name, "%nclusterid"), name == "%is_explicit_cluster":
		b.refuse(o.Pos, "clusters (%s)", ast.Format(o))
	case strings.HasPrefix(name, "%envreg"):
		b.refuse(o.Pos, "%s: by these a grid is synchronised as a whole", name)
	case name == "%total_smem_size" || name == "%aggr_smem_size":
		b.refuse(o.Pos, "%s is the aggregated launch's, not the child's", name)
	case slices.Contains([]string{"%tid", "%ntid", "%ctaid", "%nctaid"}, name):
		b.refuse(o.Pos, "%s as a vector", ast.Format(o))
	}
}

// checkCoarse refuses what blocks cannot do several times one after the other.
func (r *rewriter) checkCoarse(f *ast.Func, functions []*ast.Func) {
	const why = "a block that takes several child blocks has neither barriers nor shared memory"
	var block func(b *ast.Block, entry bool)
	block = func(b *ast.Block, entry bool) {
		for _, s := range b.Stmts {
			switch s := s.(type) {
			case *ast.Block:
				block(s, entry)
			case *ast.Var:
				if s.Space == "shared" {
					r.refuse(s.Pos, "%s: %s", s.Name, why)
				}
			case *ast.Instr:
				switch {
				case s.Name == "barrier" || s.Name == "bar" && !s.Has("warp"), s.Name == "mbarrier", s.Name == "setmaxnreg":
					r.refuse(s.Pos, "%s: %s", s.Opcode(), why)
				case s.Name == "exit" && !entry:
					r.refuse(s.Pos, "exit in a function: a block that takes several child blocks goes on")
				}
				for _, a := range s.Args {
					operandNames(a, func(name string) {
						if v, ok := r.decls[name].(*ast.Var); ok && v.Space == "shared" {
							r.refuse(a.Position(), "%s: %s", name, why)
						}
					})
				}
			}
		}
	}
	block(f.Body, true)
	for _, fn := range functions {
		block(fn.Body, false)
	}
}
