# shellcheck shell=bash disable=SC2034,SC2154 # the scripts that source it use its variables, and it those of lib.sh
# installed.sh - the wheel in an environment of its own, as pip installs it, without a network. Sourced after lib.sh, with $work set.
# The headers of CUDA, which NVIDIA's wheels have, are linked where pip puts them.
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV CUDA_HOME CUDA_PATH CUDACXX CUDAARCHS NVCC_CCBIN NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS LIBRARY_PATH \
    LD_LIBRARY_PATH LD_PRELOAD CXXFLAGS LDFLAGS MAKEFLAGS "${!SOFTGPU_@}"
export PYTHONDONTWRITEBYTECODE=1

# exits CODE COMMAND...: runs it, with its output in $work/out.
exits() {
    local wanted=$1 code=0
    shift
    timeout -k 1 "$(patient 100)" "$@" <"/dev/null" >"$work/out" 2>&1 || code=$?
    [ "$code" -eq "$wanted" ] || {
        echo "exit code $code: $*"
        return 1
    }
}

# says TEXT: whether that output has it.
says() {
    grep -qF -- "$1" "$work/out"
}

# install_wheel WHEEL HEADERS: into $work/venv; sets bin, pip and site.
install_wheel() {
    python3 -m pip --version >"$work/out" 2>&1 || skip "no pip (package python3-pip): $(tail -n 1 "$work/out")"
    python3 -m venv --without-pip "$work/venv" >"$work/out" 2>&1 || skip "python3 makes no environments: $(tail -n 1 "$work/out")"
    bin=$work/venv/bin
    pip=("$(command -v python3)" -m pip --python "$bin/python" --isolated --quiet --disable-pip-version-check) # 22.3 and newer
    site=$(echo "$work"/venv/lib/python3*/site-packages)
    check "pip installs the wheel" exits 0 "${pip[@]}" install --no-index --no-deps --no-compile "$1"
    mkdir -p "$site/nvidia/cu13"
    ln -s "$2" "$site/nvidia/cu13/include"
    export PATH=$bin:$PATH
}
