#!/usr/bin/env bash
# lines.sh BUILD [NAME...] - the diff that `ddprun scout --patch` writes for programs without annotations is applied to their sources by
# `patch -p0`, the programs are compiled, and their ranks take turns: digits, chargpt, programs of the matrix whose annotations are taken
# out, and updates inside backward.
#
# Ordinarily a sixth of the programs that are not marked (in_turn); DDPRUN_SOAK=1 runs all.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/pasted.sh"
text=$(dirname "$data")/shakespeare.txt
wanted=("${@:2}")

# is_wanted NAME [soak]: whether a program is tried in this run.
is_wanted() {
    if [ ${#wanted[@]} -gt 0 ]; then
        [[ " ${wanted[*]} " == *" $1 "* ]]
    else
        [ "${2:-}${DDPRUN_SOAK:-0}" != soak0 ] && in_turn 6
    fi
}

# A statement after `return`, which may stand on the same line as the call before it, is never reached.
if is_wanted one_line; then
    alone one_line "$sources/tests/tools/scout/one_line.cu"
    check "one line: no line after return" test "$(grep -Ec 'return .*; *(ddp_|DDP_)' "$work/one_line.diff")" -eq 0
    check "one line: the step is in front of the first of two updates" grep -Eq '^\+ *DDP_STEP\(0\);$' "$work/one_line.diff"
    mkdir "$work/four.d"
    four='float *m, *n, *o; CHECK(cudaMalloc(\&m, 64)); CHECK(cudaMalloc(\&t.g, 256)); CHECK(cudaMalloc(\&n, 64)); CHECK(cudaMalloc(\&o, 64));'
    sed "s|^    if (float \*g = .*|    $four|" "$sources/tests/tools/scout/one_line.cu" >"$work/four.d/four.cu"
    compile "$work/four.d" "$work/four_plain" four.cu
    cd "$work/four.d" || exit
    run "$ddprun" -q --device softgpu scout --patch "$work/four.diff" "$work/four_plain"
    check "four macros on a line: the first half's name is that of its launch, and another one's name is no gradient" test "$code$(
        grep -c DDP_GRADIENT "$work/four.diff")$(grep -c '^+ *DDP_GRADIENT(t[.]g, 32,' "$work/four.diff")$(grep -c '^by hand: 1 gradient' "$work/stdout")" = 0111
    sed -e 's|^template <class T> T \*device|static float *device|; s|T \*p;|float *p;|; s|sizeof(T)|4|g; s|device<float>|device|g' \
        -e 's|^#define CHECK(call) do {.*|#define CHECK(x) do { cudaError_t e = (x); if (e) { printf("%s:%d", __FILE__, __LINE__); exit(1); } } while (0)|' \
        -e 's|^    if (float \*g = .*|    t.w = device(64); t.g = device(64);|' "$sources/tests/tools/scout/one_line.cu" >"$work/four.d/helper.cu"
    compile "$work/four.d" "$work/helper_plain" helper.cu
    run "$ddprun" -q --device softgpu scout --patch "$work/helper.diff" "$work/helper_plain"
    check "two macros in a function on one line: what it returns has the caller's name" test "$code$(grep -c '^+ *DDP_GRADIENT(.*t[.]g' "$work/helper.diff")$(
        grep -c '^by hand' "$work/stdout")" = 020
    cd "$work" || exit
fi

# A weight that does not move while scout looks, float64, and all launches of a step on one line: the patch names all weights, also those
# that move later, and the boundary is reached.
if is_wanted range; then
    mkdir "$work/range.d"
    cp "$sources/tests/tools/scout/range.cu" "$work/range.d"
    compile "$work/range.d" "$work/range_plain" range.cu
    for mode in own fused; do
        cp -r "$work/range.d" "$work/range_$mode.d"
        pasted "range_$mode" "$work/range.d" "$work/range_plain" "$work/range_$mode.d" range.cu "$mode"
        check "range, $mode: the parameter has whole elements" grep -q '1 parameter, 640 float64' "$work/range_$mode.out"
        for seed in '' 1 2 3; do
            SOFTGPU_UNRULY=$seed run "$ddprun" -n 2 "$work/range_$mode" "$mode" 1
            sed -n 's/.*\(weights .*\)/\1/p' "$work/stdout" | sort | uniq -c >"$work/weights"
            check "range, $mode${seed:+, unruly $seed}: both ranks have the same weights" grep -q "^0 *2 weights" <(echo "$code$(cat "$work/weights")")
        done
    done
fi

mkdir "$work/digits.d"
cp -r "$sources/samples" "$work/digits.d"
if is_wanted digits; then
    pasted digits "$sources" "$digits_plain" "$work/digits.d" "samples/digits/main_plain.c samples/digits/options.c samples/digits/data.c
        samples/digits/model.c samples/digits/kernels.cu samples/common/parameter_file.c" --data "$data" --steps 24 --quiet
fi
if is_wanted chargpt; then # its loop's own count is that of the batches, and Adam's
    cd "$sources" || exit
    run "$ddprun" -q --device softgpu scout --patch "$work/chargpt.diff" "$build/samples/chargpt_plain" --data "$text" --layers 1 --width 16 \
        --heads 2 --context 8 --warmup 0 --eval-every 1000 --eval-batches 1 --quiet --batch 4 --steps 24
    check "chargpt: a count of updates that is the loop's is named" \
        test "$(grep -c '^note: adamw_kernel .*: where it counts updates' "$work/stdout") $(grep -c '^by hand' "$work/stdout")" = '1 0'
    check "chargpt: it takes turns" test "$(grep -c '^+ *DDP_\(TURN_BEGIN\|STEP\|TURN_END\)' "$work/chargpt.diff")" -eq 3
fi

# Memory of classes: a member or a method is named with its object, and what `this` is, is counted.
if is_wanted methods; then
    mkdir -p "$work/methods.d/tests/"{lib,tools/scout}
    cp "$sources/tests/lib/trainer.h" "$work/methods.d/tests/lib"
    cp "$sources/tests/tools/scout/methods.cu" "$work/methods.d/tests/tools/scout"
    sed 's/SELF gpu_/this->gpu_/' "$sources/tests/tools/scout/methods.cu" >"$work/methods.d/this.cu"
    compile "$work/methods.d" "$work/methods_plain" -I. tests/tools/scout/methods.cu
    level=0 compile "$work/methods.d" "$work/methods_this" -I. this.cu
    run "$ddprun" -q scout -v "$work/methods_this"
    check "methods: memory of \`this\` has the name that launches have for it" test "$(
        grep -Ec '^\+ *DDP_(PARAMETER\(w|GRADIENT\(network.g)[.]gpu_, DDP_WHOLE, ' "$work/stdout") $(grep -c ddp_made "$work/stdout")" = '2 0'
    pasted methods "$work/methods.d" "$work/methods_plain" "$work/methods.d" "-I. tests/tools/scout/methods.cu"
fi

# What a macro allocates, and memory that the first step makes.
if is_wanted made; then
    mkdir "$work/endless"
    printf %s "$(cat "$sources/tests/tools/scout/made.cu")" >"$work/endless/made.cu" # its last line has no end
    alone made "$work/endless/made.cu"
    check "made: memory has the name that launches have for it" test "$(
        grep -Ec '^\+ *DDP_(PARAMETER|GRADIENT)\(net[.](d_)?[wb], DDP_WHOLE, ' "$work/made.diff") $(grep -c ddp_made "$work/made.diff")" = '4 0'
fi

# What the host counts for the update, and what else it does with results.
if is_wanted counted; then
    alone counted "$sources/tests/tools/scout/counted.cu"
    check "counted: updates are counted where they are made" test "$(grep -c '^+ *if (DDP_TURN_UPDATES()) ++of->updates;$' "$work/counted.diff")" -eq 1
    check "counted: batches are counted as before" test "$(grep -c '^[-+].*seen' "$work/counted.diff")" -eq 0
    check "counted: a running mean is rank 0's" test "$(grep -c '^+ *DDP_BUFFER(running, OUT, DDP_FLOAT32);$' "$work/counted.diff")" -eq 1
    line() { # WORDS: the line of the source that has them
        grep -nF "$1" "$sources/tests/tools/scout/counted.cu" | cut -d : -f 1
    }
    while read -r note words; do
        check "counted: a note on $words" grep -q "^note: $note counted.cu:$(line "$words")[:, ]" <(sed 's/ at counted/ counted/; s/ of counted/ counted/' "$work/counted.out")
    done <<'END'
what.the.host.reads CHECK(cudaMemcpy(&value, loss
every.rank.prints printf("after
the.loop.may.end break;
every.rank.writes.the.file fopen(path
END
    check "counted: a file that is read is written by no rank" test "$(grep -c "counted.cu:$(line 'fopen("weights"')" "$work/counted.out")" -eq 0
fi

# The same, where the number of the update is that of the batch: ranks train to the bits of those that count.
if [ -x "$work/counted" ]; then
    mkdir "$work/by_batch.s"
    sed -E 's/struct adam \*of\)/struct adam *of, int t)/; /^    \+\+of->updates;/d; s/of->updates/t/g; s/&adam\)/\&adam, batch + 1)/
        s/(float \*second, float rate)\)/\1, int t)/; s/w\[i\] -= rate/w[i] -= (t > 0) * rate/; s/(of->second, rate)\)/\1, t)/
        s/&g, weights/\&g, IN*OUT*sizeof(float)/' \
        "$sources/tests/tools/scout/counted.cu" >"$work/by_batch.s/by_batch.cu"
    alone by_batch "$work/by_batch.s/by_batch.cu"
    check "by_batch: three numbers of batches become those of updates" \
        test "$(grep -o '(t + DDP_WORLD_SIZE() - 1) / DDP_WORLD_SIZE()' "$work/by_batch.diff" | wc -l)" -eq 3
    check "by_batch: the elements of a size without blanks" grep -q '^+ *DDP_GRADIENT(g, IN[*]OUT, DDP_FLOAT32);$' "$work/by_batch.diff"
    for name in counted by_batch; do
        run "$ddprun" -q -n 2 --device softgpu "$work/$name" "$work/$name.w"
    done
    check "by_batch: it trains as one that counts updates" cmp "$work/counted.w" "$work/by_batch.w"
fi

# What looks at each gradient in the loop of backward, and changes none.
if is_wanted guarded; then
    alone guarded "$sources/tests/tools/scout/guarded.cu"
    check "guarded: the region begins after the counter of batches" grep -q 'count_up<<<' <(grep -B1 '^+ *DDP_TURN_BEGIN' "$work/guarded.diff")
fi

# A batch that the host leaves out by a result of the device.
if is_wanted left_out; then
    compile "$sources" "$work/left_out" -I. tests/tools/scout/left_out.cu
    cd "$sources" || exit
    run "$ddprun" -q --device softgpu scout -v "$work/left_out"
    check "left_out: the place is named" grep -q "^by hand: a result of the device leaves batches out at left_out.cu:$(
        grep -n 'if (bad)' tests/tools/scout/left_out.cu | cut -d : -f 1): decide" "$work/stdout"
    check "left_out: all ranks look for an overflow in the averages" grep -q 'find_overflow<<<' <(sed -n '/^+ *DDP_STEP(0);/{n;p}' "$work/stdout")
fi

# The annotations of a copy of the sources are taken out.
matrix=$work/matrix.d
mkdir -p "$matrix/tests/"{lib,tools/scout}
cp -r "$sources/samples" "$matrix"
cp -r "$sources/tests/matrix" "$sources/tests/trainers" "$matrix/tests"
cp "$sources"/tests/lib/{elementwise,numbers,trainer*}.h "$matrix/tests/lib"
cp "$sources"/tests/tools/{frame,kernels}.h "$matrix/tests/tools"
cp "$sources"/tests/tools/scout/{habit.h,layers.h,missed.cu,public*} "$matrix/tests/tools/scout"
sed -E -i -e 's/^( *)DDP_(PARAMETER|STATE|GRADIENT|STEP|WEIGHT|NO_SYNC|SYNC|FORGET)[A-Z_]*\(.*\);(.*)$/\1;\3/' -e 's/DDP_SHARD\((.*), &(.*), &(.*)\);/\2 = 0, \3 = \1;/' \
    -e 's/DDP_RANK\(\)/0/; s/DDP_WORLD_SIZE\(\)/1/; s/#include <ddprun.h>//' "$matrix"/tests/{matrix,trainers,tools/scout}/* "$matrix/tests/tools/frame.h"
sed -i '1s/^/\xEF\xBB\xBF/' "$matrix/tests/tools/scout/public_nets.cu" # a byte-order mark
# of_matrix NAME PROGRAM "COMPILED WORDS" ARGUMENT...: PROGRAM, compiled of that copy, as pasted.
of_matrix() {
    local words
    read -ra words <<<"$3"
    [ -x "$work/$2" ] || compile "$matrix" "$work/$2" "${words[@]}"
    cp -r "$matrix" "$work/$1.d"
    pasted "$1" "$matrix" "$work/$2" "$work/$1.d" "${@:3}"
}
for name in mlp flat clipping tied; do
    is_wanted "$name" soak && of_matrix $name $name.plain "tests/matrix/$name.cu samples/common/parameter_file.c" --steps 40
done

# Sources with other line ends and with a byte-order mark keep them; `git apply` takes the patch, too; and what is not as it was when the
# program was built, or lies elsewhere, gets no patch.
if is_wanted ends; then
    for ends in plain returns mark both; do
        copy=$work/$ends.d
        cp -r "$matrix" "$copy"
        find "$copy/tests/matrix" -type f >"$work/files"
        case $ends in returns | both) xargs -d '\n' -a "$work/files" sed -i 's/$/\r/' ;; esac
        case $ends in mark | both) xargs -d '\n' -a "$work/files" sed -i '1s/^/\xEF\xBB\xBF/' ;; esac
        compile "$copy" "$work/$ends.program" tests/matrix/mlp.cu samples/common/parameter_file.c
        cp -r "$copy" "$work/$ends.git"
        cd "$copy" || exit
        works "$ends: scouted" "$ddprun" -q scout --patch "$work/$ends.diff" "$work/$ends.program" --steps 40
        check "$ends: patch takes it" patch -p0 --fuzz=0 -s -i "$work/$ends.diff"
        cd "$work/$ends.git" || exit
        check "$ends: git apply takes it" git apply --whitespace=nowarn "$work/$ends.diff"
        cd "$sources" || exit
        check "$ends: both make the same" diff -r "$copy" "$work/$ends.git"
        case $ends in mark | both) sed -i '1s/^\xEF\xBB\xBF//' "$work/$ends.git/tests/matrix"/* ;; esac
        case $ends in returns | both) sed -i 's/\r$//' "$work/$ends.git/tests/matrix"/* ;; esac
        check "$ends: all but line ends and the mark is the same" diff -r "$work/plain.d" "$work/$ends.git"
        sed 's/$/\r/' "$work/plain.d/tests/matrix/trainer.h" >"$work/trainer.h"
        [ $ends != returns ] || check "$ends: all line ends are as they were" cmp "$work/trainer.h" "$copy/tests/matrix/trainer.h"
    done
    cd "$work/both.d" || exit
    run "$ddprun" -q scout --patch "$work/none.diff" "$work/both.program" --steps 40
    check "a source that has changed since: refused" test "$code" -eq 1 -a ! -e "$work/none.diff"
    check "one line names the source that has changed" grep -q '^ddprun: .* has changed since .*both.program was built' "$work/stderr"
    find "$work/both.d" -type f -exec touch -d "1 day ago" {} +
    cd samples || exit
    run "$ddprun" -q scout --patch "$work/none.diff" "$work/both.program" --steps 40
    check "a source elsewhere: refused" test "$code" -eq 1 -a ! -e "$work/none.diff"
    check "one line names the source that is elsewhere" grep -q '^ddprun: .* is not below the current folder' "$work/stderr"
    cd "$sources" || exit
    strip --strip-debug -o "$work/bare.program" "$work/both.program"
    run "$ddprun" -q scout --patch "$work/none.diff" "$work/bare.program" --steps 40
    check "a program without debug information: refused" test "$code" -eq 1 -a ! -e "$work/none.diff"
    check "one line says what to compile with" grep -q '^ddprun: no line has a place in a source, .*compile with -g' "$work/stderr"
    run "$ddprun" scout --by state --patch "$work/none.diff" "$work/both.program"
    check "by state no line is found" test "$code" -eq 2
fi

# Updates inside backward: of all parameters, in one region; of the biases alone, which would need a region inside that of the weights.
! is_wanted gemm || of_matrix gemm fused.plain "-I. tests/trainers/fused.cu samples/common/parameter_file.c" gemm --steps 41
if is_wanted mixed soak; then
    [ -x "$work/fused.plain" ] || compile "$matrix" "$work/fused.plain" -I. tests/trainers/fused.cu samples/common/parameter_file.c
    run "$ddprun" -q scout "$work/fused.plain" mixed --steps 40
    check "mixed: turns are left by hand" grep -q "^by hand: DDP_TURN_BEGIN before the batch" "$work/stdout"
fi

# Habits of public trainers: "program habit", and what of its lines is left by hand. -: with DDPRUN_SOAK=1 only.
while read -r mark program habit rest; do
    is_wanted "$habit" "$([ "$mark" = + ] || echo soak)" || continue
    if [ -n "$rest" ]; then
        [ -x "$work/$program" ] || compile "$matrix" "$work/$program" -I. "tests/tools/scout/$program.cu" -lcurand
        run "$ddprun" -q scout "$work/$program" "$habit"
        check "$habit: $rest" grep -q "^by hand: $rest" "$work/stdout"
        continue
    fi
    of_matrix "$habit" "$program" "-I. tests/tools/scout/$program.cu -lcurand" "$habit"
done <<END
+ public_nets reuse DDP_TURN_BEGIN before the batch, .*: several updates have gradients in one memory, and each needs a region
+ missed hidden decide about the memory in question
+ public_updates swap
- public_updates clears
+ public_updates blas
- public_updates norm-block
- public_updates trust
- public_updates kahan
- public_updates counter
- public_updates max-norm
- public_updates factored
- public_updates signs
- public_updates partial
- public_nets target
- public_nets bias-row
- public_nets recompute
- public_memory arena
+ public_memory pitch 1 gradient, .*: a
+ public_memory resident
- public_nets single
- public_nets scales
+ public_nets per-step call DDP_FORGET before the memory that is allocated at public_nets.cu:[0-9]* from public_nets.cu:[0-9]* is freed: its size changes
END
finish
