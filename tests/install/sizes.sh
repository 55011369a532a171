# shellcheck shell=bash disable=SC2034 # docs/refresh.sh and portable.sh source it
# sizes.sh - how large the tarball for other systems is, in docs/install.md and in a build. The kernels for GPUs do not count: how many
# architectures they are for differs from build to build.
build_figures='A first build takes' # the begin of the line in docs/install.md

# bytes_without_kernels FOLDER: of the files that the tarball unpacks into FOLDER.
bytes_without_kernels() {
    find "$1" -type f ! -name '*.fatbin' -printf '%s\n' | awk '{ bytes += $1 } END { print bytes }'
}

# documented_bytes: the same, as docs/install.md has it.
documented_bytes() {
    sed -nE "s/^$build_figures .*<!-- unpacked ([0-9]+) bytes without kernels -->\$/\\1/p" docs/install.md
}
