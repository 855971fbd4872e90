package packbits_test

import (
	"fmt"

	"github.com/ptxrun/ptxrun/packbits"
)

func Example() {
	packed := packbits.Encode([]byte("aaaaaaaaxyz"), 0)
	fmt.Printf("% x\n", packed)
	src, err := packbits.Decode(packed)
	fmt.Println(string(src), err)
	// Output:
	// f9 61 02 78 79 7a
	// aaaaaaaaxyz <nil>
}
