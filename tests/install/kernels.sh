# shellcheck shell=bash disable=SC2154 # $build is of the scripts that source it
# kernels.sh - a package holds ddprun's kernels for GPUs. Sourced by the scripts that look at packages; images.sh looks at the build's.

# has_kernels FOLDER: it has the build's kernels, byte for byte; those for drivers of CUDA 12, whose images are compressed, have at most 2 MB.
has_kernels() {
    local name bytes
    [ -e "$build/lib/ddprun-kernels.fatbin" ] || return 0 # no nvcc
    for name in ddprun{,-plan}-kernels{,-cuda12}; do
        check "with $name.fatbin, as it was built" cmp "$build/lib/$name.fatbin" "$1/$name.fatbin"
    done
    bytes=$(cat "$1"/*-cuda12.fatbin | wc -c)
    check "kernels for drivers of CUDA 12 have $bytes bytes, at most 2 MB" [ "$bytes" -le 2000000 ]
}
