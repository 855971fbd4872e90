#!/bin/sh
# Builds the peer programs, and compiles every kernel of ptxrun with nvcc, to
# PTX and to machine code, for the GPU of this machine, on all cores. Needs nvcc,
# not Go.
#
#     bench/peers/build.sh [OUT [peers|kernels]]      OUT is out/bench by default
#
# What nvcc says of registers, shared and local memory is in OUT/nvcc/*.log.
set -eu
if [ "${1-}" = --one ]; then # a job of the ones below
    kind=$2 source=$3 out=$4 capability=$5
    if [ "$kind" = peer ]; then
        name=$(basename "$source" .cu) flags=
        if [ "$name" = cdp ]; then flags="-rdc=true -lcudadevrt"; fi # launches from the device
        # shellcheck disable=SC2086 # flags are words
        exec nvcc -O3 -std=c++17 -arch="sm_$capability" -o "$out/$name" "$source" $flags
    fi
    # The second line of a built file names its source and macros.
    target=$(basename "$(dirname "$source")")
    name=$target-$(basename "$source" .ptx)
    command=$(sed -n 2p "$source")
    code=ptx/src/${command##* }
    defines=$(printf '%s\n' $command | grep '^-D' | tr '\n' ' ')
    log=$out/nvcc/$name.log
    # shellcheck disable=SC2086 # defines are words
    if nvcc -std=c++17 -fmad=false -arch="compute_$capability" -ptx $defines -o "$out/nvcc/$name.ptx" "$code" >"$log" 2>&1 &&
        nvcc -std=c++17 -fmad=false -arch="sm_$capability" -cubin -Xptxas -v $defines -o "$out/nvcc/$name.cubin" "$code" >>"$log" 2>&1; then
        exit 0
    fi
    { echo "$name does not compile with nvcc:"; cat "$log"; } >&2
    exit 1
fi

self=$(cd "$(dirname "$0")" && pwd)/build.sh
cd "$(dirname "$0")/../.."
out=${1:-out/bench} what=${2:-all}
mkdir -p "$out/nvcc"
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)

jobs() {
    if [ "$what" != kernels ]; then
        printf 'peer %s\n' bench/peers/*.cu # first: these take longest
    fi
    if [ "$what" != peers ]; then
        rm -f "$out"/nvcc/*
        for dir in ptx/sm_*; do
            if [ "${dir#ptx/sm_}" -le "$capability" ]; then printf 'kernel %s\n' "$dir"/*.ptx; fi
        done
    fi
}

failed=0
if [ "$what" != kernels ] && python3 -c 'import torch' 2>/dev/null; then
    install -m 755 bench/peers/torch.py "$out/torch"
fi
jobs | xargs -P "$(nproc)" -L 1 sh -c 'exec sh "$0" --one "$3" "$4" "$1" "$2"' "$self" "$out" "$capability" || failed=1
if [ "$what" != peers ]; then
    if grep -l '[1-9][0-9]\{2,\} bytes spill' "$out"/nvcc/*.log; then
        echo "these modules have kernels that spill 100 bytes and more" >&2
        failed=1
    fi
    echo "$(ls "$out"/nvcc/*.cubin | wc -l) of $(ls "$out"/nvcc/*.log | wc -l) modules compile with nvcc"
fi
exit "$failed"
