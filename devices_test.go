package ptxrun

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cpu"
	"github.com/ptxrun/ptxrun/driver/emu"
)

// testDevice is a device that the suite runs on.
type testDevice struct {
	name string
	// slow devices run the same sizes up to the first recursion only; in short mode
	// all do.
	slow   bool
	target int // of the emulator
	open   func() (*Runtime, error)
}

// testDevices are the devices of this machine and build: the cpu and the
// emulator always, the GPU where there is one. PTXRUN_TEST_DEVICES, a list of
// names with commas, takes some of them, for a GPU machine that is lent by the
// minute or a sanitizer that slows everything.
func testDevices(t testing.TB) []testDevice {
	all := everyDevice(t)
	chosen := os.Getenv("PTXRUN_TEST_DEVICES")
	if chosen == "" {
		return all
	}
	some := slices.DeleteFunc(all, func(d testDevice) bool { return !slices.Contains(strings.Split(chosen, ","), d.name) })
	require.NotEmpty(t, some, "PTXRUN_TEST_DEVICES=%s", chosen)
	return some
}

func everyDevice(t testing.TB) []testDevice {
	all := []testDevice{{name: "cpu", open: func() (*Runtime, error) {
		dev, err := cpu.Open(cpu.WithMemoryChecks())
		return runtimeOn(dev, err)
	}}}
	for _, capability := range []int{70, 80, 90} {
		all = append(all, testDevice{name: fmt.Sprintf("emu-sm_%d", capability), slow: true, target: capability, open: func() (*Runtime, error) {
			dev, err := emu.Open(emu.WithCapability(capability), emu.WithMemoryChecks())
			return runtimeOn(dev, err)
		}})
	}
	rt, err := Open(WithDevice("cuda"))
	switch {
	case err == nil:
		require.NoError(t, rt.Close())
		all = append(all, testDevice{name: "cuda", open: func() (*Runtime, error) { return Open(WithDevice("cuda")) }})
	case !errors.Is(err, driver.ErrNoDriver) && !errors.Is(err, driver.ErrNoDevice):
		require.NoError(t, err, "a GPU driver is here and cannot be opened")
	default:
		t.Log("not on a GPU: ", err)
	}
	return all
}

func runtimeOn(dev driver.Device, err error) (*Runtime, error) {
	if err != nil {
		return nil, err
	}
	return NewRuntime(dev), nil
}

// eachDevice runs f on every device; what f allocates it must free.
func eachDevice(t *testing.T, f func(t *testing.T, d testDevice, rt *Runtime)) {
	for _, d := range testDevices(t) {
		t.Run(d.name, func(t *testing.T) {
			rt, err := d.open()
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, rt.Close(), "nothing is left on the device") })
			f(t, d, rt)
		})
	}
}

// eachTarget is eachDevice for what elements of type T go through: an emulator is
// left out if no module of a stem was built for its target with the type or the
// unsigned one of its width, as then an older one runs the same kernels.
func eachTarget[T Number](t *testing.T, stem string, f func(t *testing.T, d testDevice, rt *Runtime)) {
	letter := map[bool]string{true: "f", false: "i"}[reflect.TypeFor[T]().Kind() >= reflect.Float32]
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		if d.target != 0 && !slices.ContainsFunc(Modules(), func(m ModuleSpec) bool {
			bits := strconv.Itoa(int(8 * sizeOf[T]()))
			return strings.HasPrefix(m.Name, stem) && slices.Contains(m.Targets, d.target) && (strings.HasSuffix(m.Name, "_u"+bits) || strings.HasSuffix(m.Name, "_"+letter+bits))
		}) {
			t.Logf("no module %s… of this type is for sm_%d", stem, d.target)
			return
		}
		f(t, d, rt)
	})
}

// openCPU opens the cpu device for tests of what comes after the kernels.
func openCPU(t testing.TB) *Runtime {
	rt, err := Open(WithDevice("cpu"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

// eachLargeDevice is eachDevice for inputs beyond 2^32 elements.
func eachLargeDevice(t *testing.T, f func(t *testing.T, d testDevice, rt *Runtime)) {
	if testing.Short() {
		t.Skip("needs 5 GB of memory on each device and some seconds; leave -short out")
	}
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		if d.slow {
			t.Skip("2^32 elements would take the emulator hours; the cpu and CUDA devices run them")
		}
		f(t, d, rt)
	})
}

// sizes is the shared list for a kernel with that tile: nothing, one, around a
// warp, around a block's threads, around a tile and two, and ragged. A slow
// device runs those at which kernels take another path.
func (d testDevice) sizes(tile int) []int {
	if d.slow || testing.Short() {
		return []int{0, 1, 33, 257, tile - 1, tile, 2*tile + 17}
	}
	return []int{0, 1, 2, 3, 31, 32, 33, 255, 256, 257, tile - 1, tile, tile + 1, 2*tile - 1, 2*tile + 1, 3*tile + 17}
}

// testData are the shapes of data that the suite uses, by name; on a slow device
// the two that no other contains.
func testData[T Number](d testDevice, n int) map[string][]T {
	all := allData[T](n)
	if d.slow || testing.Short() {
		return map[string][]T{"random": all["random"], "runs": all["runs"]}
	}
	return all
}

func allData[T Number](n int) map[string][]T {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	random, runs := make([]T, n), make([]T, n)
	alternating, distinct, constant := make([]T, n), make([]T, n), make([]T, n)
	v := T(1)
	for i := range n {
		random[i] = T(r.Uint32() % 119)
		if r.Uint32()%7 == 0 {
			v = T(r.Uint32() % 5)
		}
		runs[i], alternating[i], distinct[i], constant[i] = v, T(i%2), T(i%127), T(3)
	}
	return map[string][]T{"random": random, "runs": runs, "alternating": alternating, "distinct": distinct, "constant": constant}
}

// guarded is a device buffer between two canaries; the data starts skew elements
// after an aligned address.
type guarded[T Number] struct {
	*Buffer[T]
	whole *Buffer[T]
	skew  int
}

const canary = 77

func newGuarded[T Number](t testing.TB, s *Stream, n, skew int) guarded[T] {
	whole, err := NewBuffer[T](s.rt, n+skew+16)
	require.NoError(t, err)
	fill := make([]T, n+skew+16)
	for i := range fill {
		fill[i] = canary
	}
	require.NoError(t, whole.CopyFrom(s, fill))
	b, err := whole.Slice(skew, skew+n)
	require.NoError(t, err)
	return guarded[T]{b, whole, skew}
}

// check returns the contents and frees the buffer; whatever was written outside
// fails the test.
func (g guarded[T]) check(t testing.TB, s *Stream, msg string) []T {
	all := make([]T, g.whole.Len())
	require.NoError(t, g.whole.CopyTo(s, all))
	require.NoError(t, g.whole.Free())
	for i, v := range all {
		if i < g.skew || i >= g.skew+g.Len() {
			require.Equal(t, T(canary), v, "%s: element %d of the buffer's surroundings was written", msg, i-g.skew)
		}
	}
	return all[g.skew : g.skew+g.Len()]
}

// requireSame compares long slices without printing them whole.
func requireSame[T comparable](t testing.TB, want, got []T, format string, args ...any) {
	t.Helper()
	msg := fmt.Sprintf(format, args...)
	require.Equal(t, len(want), len(got), "%s: length", msg)
	for i := range want {
		if want[i] != got[i] {
			require.Fail(t, "values differ", "%s: element %d of %d: want %v, got %v", msg, i, len(want), want[i], got[i])
		}
	}
}
