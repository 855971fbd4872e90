package coco_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/ptxrun/ptxrun/coco"
)

func Example() {
	mask, err := coco.Encode([]uint8{
		0, 1, 1, 0,
		0, 1, 1, 0,
		0, 0, 1, 0,
	}, 3, 4)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(mask.Counts)
	text, err := json.Marshal(mask)
	fmt.Println(string(text), err)
	// Output:
	// [3 2 1 3 3]
	// {"size":[3,4],"counts":"32112"} <nil>
}
