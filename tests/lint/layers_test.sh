#!/usr/bin/env bash
# layers_test.sh - layers.sh finds a circle of files, a use upwards and an address that is handed downwards, each planted into
# small C files, and is silent about the same files without them. Called by tests/run.sh.
set -euo pipefail
source "$(dirname "$0")/planted/lib.sh"
cd "$work"
mkdir -p tests/lint toy/low toy/high build/toy/CMakeFiles/toy.dir/low build/toy/CMakeFiles/toy.dir/high

rows='toy/low  | toy/low         |
toy/high | toy/high toy/low |'

# expect PATTERN WHAT [ROW...]: compiles the C files, and layers.sh says a line that matches PATTERN, or passes if it is empty.
expect() {
    local pattern=$1 what=$2 source
    shift 2
    printf '%s\n' "$rows" "layers toy files folders ${words:-}" "$@" >tests/lint/parts.txt
    for source in toy/*/*.c toy/*/*/*.c; do
        [ -e "$source" ] || continue
        mkdir -p "build/toy/CMakeFiles/toy.dir/$(dirname "${source#toy/}")"
        ${CC:-cc} -O2 -fPIC -w -c "$source" -o "build/toy/CMakeFiles/toy.dir/${source#toy/}.o"
    done
    finds "$pattern" "$what" env "LAYERS_ROOT=$work" bash "$lint/layers.sh" build
}

# Two layers: `each` calls what it gets, `keep` keeps it for later.
good() {
    cat >toy/low/each.c <<'C'
typedef void visitor(int);
struct task {
    visitor *visit;
    int count;
};
static visitor *kept;
void each(visitor *visit, int count);
void keep(struct task *task);
void notify(void);
int low_count;
void
each(visitor *visit, int count)
{
    for (int i = 0; i < count; ++i) {
        visit(i);
    }
}
void
keep(struct task *task)
{
    kept = task->visit;
}
void
notify(void)
{
    kept(low_count);
}
C
    cat >toy/low/other.c <<'C'
void notify(void);
void low_other(void);
void
low_other(void)
{
    notify();
}
C
    cat >toy/high/high.c <<'C'
#include <stdlib.h>
void low_other(void);
void high(int *numbers, int count);
extern int low_count;
static int
compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}
void
high(int *numbers, int count)
{
    low_other();
    for (int i = 0; i < count; ++i) {
        qsort(numbers + i, (size_t)(count - i), sizeof(*numbers), compare); /* calls it, but is no folder */
    }
    low_other();
    low_count = numbers[0];
}
C
}

good
expect '' 'two layers'

cat >>toy/low/each.c <<'C'
void low_other(void);
void each_other(void);
void
each_other(void)
{
    low_other();
}
C
expect '2 files use each other in a circle' 'a circle of two files'
expect '^    toy/low/each.c -> toy/low/other.c: low_other$' "the circle's first half"
expect '^    toy/low/other.c -> toy/low/each.c: notify$' "the circle's second half"

good
cat >toy/low/other.c <<'C'
extern int high_count;
int low_other(void);
int
low_other(void)
{
    return high_count;
}
C
printf 'int high_count;\n' >toy/high/count.c
expect '^toy/low/other.c: toy/low must not use high_count of toy/high/count.c$' 'a variable of a higher folder'
expect '2 folders use each other in a circle' 'a circle of two folders'
rm toy/high/count.c build/toy/CMakeFiles/toy.dir/high/count.c.o

good
cat >>toy/low/other.c <<'C'
void high(int *numbers, int count);
void upwards(void);
void
upwards(void)
{
    high(0, 0);
}
C
expect '^toy/low/other.c: toy/low must not use high of toy/high/high.c$' 'a call upwards'

# Folders in a folder, each of which uses the other, and a folder that its row takes out again.
good
mkdir -p toy/high/one toy/high/two
printf 'int first(void);\nint second(void);\nint first(void) { return second(); }\n' >toy/high/one/a.c
printf 'int second(void);\nint second(void) { return 2; }\n' >toy/high/two/a.c
printf 'int third(void);\nint fourth(void);\nint third(void) { return fourth(); }\n' >toy/high/two/b.c
printf 'int fourth(void);\nint fourth(void) { return 4; }\n' >toy/high/one/b.c
expect '' 'folders in a folder that stands for them'
words=high/ expect '2 folders use each other in a circle' 'a circle of folders in a folder'
words=high/ expect '^toy/high/one/a.c: toy/high/one must not use second of toy/high/two/a.c$' 'a folder that is taken out' 'toy/high/one | toy/high !toy/high/two |'
rm -r toy/high/one toy/high/two build/toy/CMakeFiles/toy.dir/high/one build/toy/CMakeFiles/toy.dir/high/two

# hands CODE: the higher folder with a function `visit`, and CODE that hands its address on.
hands() {
    good
    cat >>toy/high/high.c <<C
typedef void visitor(int);
struct task { visitor *visit; int count; };
void each(visitor *visit, int count);
void keep(struct task *task);
void hand(int count);
static int sum;
static void
visit(int i)
{
    sum += i;
}
$1
C
}
if [ "$(uname -m)" = x86_64 ]; then
    hands 'void hand(int count) { each(visit, count); }'
    expect '^toy/high/high.c: hand\(\) hands the address of visit to another folder: toy/low$' 'an address as an argument'
    expect '' 'a callback' 'callbacks toy/high visit'
    hands 'void hand(int count) { if (count > 3) low_other(); struct task task = {visit, count}; keep(&task); }'
    expect 'hand\(\) hands the address of visit to another folder: toy/low$' 'an address in a struct'
    hands 'void hand(int count) { struct task task = {visit, count}; atexit((void (*)(void))visit); keep(&task); }'
    expect 'hand\(\) hands the address of visit to another folder: toy/low$' 'an address in a struct and for libc'
    hands 'static struct task task = {visit, 3}; void hand(int count) { task.count = count; keep(&task); }'
    expect 'hand\(\) hands the address of task to another folder: toy/low$' 'an address in a table'
    hands 'void on(visitor *v, int count);
        __attribute__((noinline, noclone)) void on(visitor *v, int count) { low_other(); each(v, count); }
        void hand(int count) { on(visit, count); }'
    expect '^toy/high/high.c: on\(\) hands the address of visit to another folder: toy/low$' 'an address by way of its own folder'
    hands 'static visitor *const table[] = {visit, 0}; void hand(int i) { low_other(); table[i](i); }'
    expect '' 'a table that its own function calls'
    good
    expect 'callbacks toy/high: visit is handed to no other folder$' 'a callback that there is no more' 'callbacks toy/high visit'
fi

finish 'layers.sh finds circles, uses upwards and addresses that are handed downwards'
