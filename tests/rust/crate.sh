#!/usr/bin/env bash
# crate.sh BUILD - the crate ddprun (interpose/rust): its tests pass alone, where every call does nothing, and on ranks; it is documented and
# packaged without a network; misuses do not compile, each by one error at its place, or end the job with one line. Its example, a trainer
# over the driver's API, trains on 2 and 3 ranks what one process trains; `ddprun check` finds it equal, also with turns.
source "$(dirname "$0")/../end_to_end/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
for tool in rustc cargo; do
    "$tool" --version >/dev/null 2>&1 || skip "no $tool"
done
[ "$device" = softgpu ] || skip "its kernels are compiled for the stand-in"
export CARGO_HOME=$work/cargo CARGO_TARGET_DIR=$work/target CARGO_NET_OFFLINE=true RUSTFLAGS="-D warnings" RUSTDOCFLAGS="-D warnings"
export RUST_BACKTRACE=0
cp -rL "$root/interpose/rust" "$work/crate"
cd "$work/crate" || exit 1
limit=300
stand_in=(env "LD_LIBRARY_PATH=$build/lib/softgpu")

# ---- the crate by itself ----
version=$(sed -n 's/^project(ddprun VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
check "the crate has the product's version" grep -qx "version = \"$version\"" Cargo.toml
works "cargo test, a world of one without CUDA" cargo test
check "cargo test has run all" [ "$(grep -c '^test result: ok' "$work/stdout")" -eq "$(grep -cE '^ +(Running|Doc-tests) ' "$work/stderr")" ]
check "each public item is documented" cargo doc --no-deps
works "cargo package" cargo package
check "the package has its example and its licence" test \
    "$(tar tzf "$work"/target/package/ddprun-*.crate | grep -cE '/(examples/driver/kernels\.cu|LICENSE|README\.md)$')" -eq 3

# ---- its tests on ranks ----
works "cargo builds the tests" cargo test --no-run --message-format=json
for name in ranks turns; do
    program=$(grep -oE "\"executable\":\"[^\"]*/$name-[^\"]*\"" "$work/stdout" | cut -d '"' -f 4)
    cp "$program" "$work/$name"
done
for name in ranks turns; do
    works "$name, alone" "${stand_in[@]}" "$work/$name"
    for ranks in 1 2 3; do
        works "$name, $ranks ranks" "$ddprun" -n "$ranks" --device softgpu "$work/$name" --test-threads=1
        check "$name, $ranks ranks: none has failed" [ "$(grep -cE '^(\[.\] )?test result: ok\. [1-9]' "$work/stdout")" -eq "$ranks" ]
    done
done

# ---- misuse: the compiler refuses it ----
crate=$work/target/debug/libddprun.rlib
compile=(env -u RUSTFLAGS rustc --edition 2021 --crate-type lib --emit metadata --out-dir "$work" --extern "ddprun=$crate" "$here/misuse.rs")
# refused LINE ERROR: the last compilation failed by ERROR alone, at the line after LINE or the next.
refused() {
    [ "$code" -eq 1 ] || return 1
    grep -E '^error(\[|: unused)' "$work/stderr" >"$work/errors"
    grep -q "$2" "$work/errors" || return 1
    ! grep -qv "$2" "$work/errors" || return 1
    grep -oE 'misuse\.rs:[0-9]+' "$work/stderr" | awk -F: -v line="$1" '$2 > line && $2 <= line + 2 { found = 1 } END { exit !found }'
}
works "right uses compile" "${compile[@]}"
misuses=0
while IFS=: read -r line name error; do
    misuses=$((misuses + 1))
    run "${compile[@]}" --cfg "$name"
    check "$name does not compile: $error" refused "$line" "$error"
done < <(sed -nE 's|^ *#\[cfg\(([a-z_0-9]+)\)\] // (.*)$|\1:\2|; T; =; p' "$here/misuse.rs" | paste -d : - -)
check "misuses were compiled" [ "$misuses" -ge 25 ]

# ---- misuse: the job ends with one line ----
works "ends.rs compiles" rustc -D warnings --edition 2021 --extern "ddprun=$crate" -o "$work/ends" "$here/ends.rs"
works "a right use ends well" "$ddprun" -n 2 --device softgpu "$work/ends" right
while IFS=' ' read -r name exit_code pattern; do
    fails "$name" "$exit_code" "$pattern" "$ddprun" -n 2 --device softgpu "$work/ends" "$name"
done <<'LINES'
nothing 1 DDP_STEP \(.*ends\.rs:[0-9]+\) without gradients: annotate them
last-update 1 `w`, 8 float32, ends\.rs:[0-9]+\) differs between ranks 0 and 1 after step 7
no-step 1 `w`, 8 float32, ends\.rs:[0-9]+\) has changed since it was annotated, and the program ended without a DDP_STEP
overlap 1 DDP_GRADIENT number 2 \(`dw`, 8 float32, .*ends\.rs:[0-9]+\) overlaps DDP_GRADIENT number 1 \(`part`
too-long 1 `dw`, 1099511627776 float32, .*the allocation ends after 32
names 1 number 1 is `dw of 0` \(ends\.rs:[0-9]+\) on rank 0, `dw of 1`
weight 1 DDP_WEIGHT \(.*ends\.rs:[0-9]+\): 9 of 8 items
label 1 ends\.rs:[0-9]+\): the label is empty
leaked-region 1 turn \(ends\.rs:[0-9]+\) in the region of turn \(ends\.rs:[0-9]+\), which has not ended
share-in-turns 1 DDP_SHARD \(ends\.rs:[0-9]+\) in a program with turn
LINES
# A panic is Rust's line; ddprun names the rank.
for row in "twice:a second time in one thread" "thread:in another thread than the one that trains"; do
    fails "${row%%:*}" 101 'rank [01] ended with exit code 101' "$ddprun" -n 2 --device softgpu "$work/ends" "${row%%:*}"
    check "${row%%:*}: says why" grep -q "its last line: .*Ddp::take() ${row#*:}" "$work/stderr"
done

# ---- the example ----
# close A B: the same weights, and values that differ by rounding.
close() {
    paste -d ' ' "$1" "$2" | awk '
        NF != 4 || $1 != $3 { exit 1 }
        { d = $2 - $4; if (d < 0) d = -d; if (!(d <= 1e-5)) exit 1; n++ }
        END { exit n != 801 }'
}
works "the example's kernels compile" "$build/bin/softgpu-cc" -fatbin -o "$work/kernels.fatbin" examples/driver/kernels.cu
works "the example compiles" cargo build --example driver
cp "$work/target/debug/examples/driver" "$work/driver"
train=("$work/driver" --kernels "$work/kernels.fatbin")
works "the example, alone" "${stand_in[@]}" "${train[@]}" --save "$work/alone"
check "the example learns" awk '$1 == "loss" && $2 < 0.1 { good = 1 } END { exit !good }' "$work/stdout"
for ranks in 2 3; do
    works "the example, $ranks ranks" "$ddprun" -n "$ranks" --device softgpu "${train[@]}" --save "$work/saved"
    check "the example, $ranks ranks: the weights of one process" close "$work/saved" "$work/alone"
    check "the example, $ranks ranks: 40 steps" grep -q "$ranks ranks, 40 steps" "$work/stderr"
    check "the example, $ranks ranks: compared after the last step" grep -q 'bitwise identical on all ranks (hash .*' "$work/stderr"
    overlapped "the example, $ranks ranks"
done
# Kernels that the example compiles itself, by NVRTC, are those of softgpu-cc.
jit=("$work/driver" --kernels "$work/crate/examples/driver/kernels.cu")
works "the example with kernels of NVRTC, alone" "${stand_in[@]}" "${jit[@]}" --save "$work/saved"
check "the example with kernels of NVRTC: the same bits" cmp "$work/saved" "$work/alone"
works "the example with kernels of NVRTC, 2 ranks" "$ddprun" -n 2 --device softgpu "${jit[@]}" --save "$work/saved"
check "the example with kernels of NVRTC, 2 ranks: the weights of one process" close "$work/saved" "$work/alone"
works "check with kernels of NVRTC" "$ddprun" check -n 2 --device softgpu "${jit[@]}"
check "check with kernels of NVRTC: equal" grep -q "^equal: 2 ranks compute what one process computes" "$work/stdout"
sed 's/value\[item\] = sum/value[item] = summ/' "$work/crate/examples/driver/kernels.cu" >"$work/wrong.cu"
fails "a kernel that is wrong" 101 'rank [01] ended with exit code 101' "$ddprun" -n 2 --device softgpu "$work/driver" --kernels "$work/wrong.cu"
check "a kernel that is wrong: the compiler's message" grep -aqE "wrong\.cu\([0-9]+\): error: .*summ" "$work/stderr"
works "the example, shares that differ" "$ddprun" -n 2 --device softgpu "${train[@]}" --batch 11 --save "$work/saved"
works "the example with them, alone" "${stand_in[@]}" "${train[@]}" --batch 11 --save "$work/alone"
check "the example, shares that differ: the weights of one process" close "$work/saved" "$work/alone"
for ranks in 2 3; do
    works "check, $ranks ranks" "$ddprun" check -n "$ranks" --device softgpu "${train[@]}"
    check "check, $ranks ranks: equal" grep -q "^equal: $ranks ranks compute what one process computes" "$work/stdout"
done
works "check of turns" "$ddprun" check -n 2 --device softgpu "${train[@]}" --turns
check "check of turns: equal" grep -q '^equal: 2 ranks that take turns' "$work/stdout"
finish
