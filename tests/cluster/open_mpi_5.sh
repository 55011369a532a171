# shellcheck shell=bash
# open_mpi_5.sh - puts Open MPI 5, which brings PRRTE (prterun) and PMIx 5, in front of PATH for the tests of jobs under it. Sourced.
# Debian 12 has neither: cmake/setup.sh --tests puts a copy into build/openmpi5; one that is first in PATH will do as well.
#
#   open_mpi_5_take                # mpirun and prterun are those of Open MPI 5, or the test is skipped by name

open_mpi_5_is() { # PROGRAM
    "$1" --version </dev/null 2>/dev/null | grep -E '^mpirun \(Open MPI\) ([5-9]|[1-9][0-9])\.' >/dev/null
}

open_mpi_5_take() {
    local folder found
    folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/openmpi5
    if open_mpi_5_is "$folder/bin/mpirun"; then
        # It was built for another folder: mpirun finds its own folder, prterun needs it as a setting.
        export PATH=$folder/bin:$PATH PRTE_PREFIX=$folder PMIX_PREFIX=$folder
    elif ! found=$(command -v mpirun) || ! open_mpi_5_is "$found" || ! command -v prterun >/dev/null; then
        skip "there is no Open MPI 5 with prterun here (cmake/setup.sh --tests puts one into build/openmpi5)"
    fi
}
