#!/usr/bin/env bash
# density_test.sh - density.sh finds each dense expression that is planted into small C files, and is silent about those beside it that are
# not dense; its table takes no new row, and keeps none that is out of date. Called by tests/run.sh.
set -euo pipefail
source "$(dirname "$0")/planted/lib.sh"
work=$(cd -P "$work" && pwd)
cd "$work"
mkdir -p base tools/common launcher tests/lint build
table=tests/lint/density.txt
: >"$table"
unset "${!GIT_@}"

# The macros of base/ and common/, a header of the product, and functions to call.
cat >base/macros.h <<'C'
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define ARE_ALL(a, b, c) ((a) && (b) && (c))
int next(void);
C
cat >tools/common/each.h <<'C'
#define ANY(i, count, holds) __extension__({ int any = 0; for (int i = 0; i < (count) && !any; ++i) any = (holds); any; })
C

# compiled: what the build knows, one file a compilation.
compiled() {
    local file
    echo '['
    for file in "$@"; do
        printf '{\n  "directory": "%s",\n  "command": "cc -I%s -c %s",\n  "file": "%s"\n},\n' "$work/build" "$work" "$work/$file" "$work/$file"
    done | sed '$s/,$//'
    echo ']'
}
compiled launcher/code.c >build/compile_commands.json

# density [OPTION]: the check, in this folder.
# shellcheck disable=SC2317 # `finds` calls it
density() {
    env "DENSITY_ROOT=$work" bash "$lint/density.sh" build "$@"
}

# code STATEMENTS [DEFINITIONS]: launcher/code.c, with the statements in a function, which begins in line 7.
code() {
    cat >launcher/code.c <<C
#include "base/macros.h"
#include "tools/common/each.h"
extern int p, q, r, s, t, u, v;
${2:-}
int planted(int x);
int
planted(int x)
{
    $1
    return x;
}
C
}

# expect PATTERN STATEMENTS [DEFINITIONS]: density.sh says a line that matches, or passes if the pattern is empty.
expect() {
    code "$2" "${3:-}"
    finds "$1" "$2 ${3:-}" density
}
nested='^launcher/code.c:9: planted has a conditional expression inside another'
expect '' 'x = p ? q : r; x = (p ? q : r) + (s ? t : u);'
expect "$nested" 'x = p ? q : r ? s : t;'
expect "$nested" 'x = p ? (q ? r : s) : t;'
expect "$nested" 'x = (p ? q : r) ? s : t;'
expect "$nested" 'x = p ?: q ?: r;'
expect "$nested" 'x = p ? next() + (q ? r : s) : t;'
expect "$nested" 'x = LARGER(p ? q : r ? s : t, u);'
expect "$nested" 'x = p ? LARGER(q ? r : s, t) : u;'
expect "$nested" 'x = ANY(i, p, i > q ? r : s ? t : u);'
expect "$nested" 'x = p ? q /* then */ : /* or */ r ? s : t;'
expect '' 'x = LARGER(p, q) ? r : s; x = p ? LARGER(q, r) : LARGER(s, t); x = LARGER(p, LARGER(q, r));'
expect '' 'x = SIGN(p ? q : r);' '#define SIGN(a) ((a) < 0 ? -1 : 1)'
expect '^launcher/code.c:4: SIGN has a conditional expression inside another' 'x = SIGN(p);' '#define SIGN(a) ((a) < 0 ? -1 : (a) > 0 ? 1 : 0)'
expect '^launcher/code.c:4: deep has a conditional expression' ';' 'static const int deep = sizeof(int) == 4 ? 1 : sizeof(int) == 8 ? 2 : 3;'
expect '^launcher/code.c:5: MADE\(by_size\) has a conditional expression' ';' '#define MADE(name, size) int name(int x); int name(int x) { return size; }
MADE(by_size, x ? 1 : x + 1 ? 2 : 3)'

chain='^launcher/code.c:9: planted has 6 operators && and \|\| in one expression, 5 at most'
expect '' 'x = p && q && r && s && t && u;'
expect "$chain" 'x = p && q && r && s && t && u && v;'
expect "$chain" 'if ((p && q) || (r && s) || !(t && u && v)) return 1;'
expect "$chain" 'x = (p || q) + (r || s) + (t || u) + (p && q) + (r && s) + (t && u);'
expect '' 'x = p && q && r && s; x = p || q || r || s;'
expect '' 'int list[] = {p && q && r && s, p || q || r || s}; x = list[0];'
expect '' 'x = p && q && ARE_ALL(r, s, t) && u && v;'
expect '' 'x = ARE_ALL(p && q, r && s, t && u) && p && q && r;'
expect "$chain" 'x = ARE_ALL(p && q && r, s && t, u && v && p && q);'
expect "$chain" 'x = ANY(i, p, i > p && i > q && i > r && i > s && i > t && i > u && i > v);'
expect "$chain" 'x = BOTH(p, q) && BOTH(r, s) && BOTH(t, u) && v;' '#define BOTH(a, b) ((a) && (b))'
expect '' 'x = "&& || && ||"[p] && q; /* && && && && && */'

assigns='^launcher/code.c:9: planted has an assignment in a condition'
expect "$assigns" 'if ((x = next())) return 1;'
expect "$assigns" 'if (p && (x = next()) > 0) return 1;'
expect "$assigns" 'while (p > 0 && (x = next())) ++x;'
expect "$assigns" 'while ((x = p)) ++x;'
expect "$assigns" 'while ((x += next())) ++p;'
expect "$assigns" 'while ((x = next()) != (p = next())) ++p;'
expect "$assigns" 'do ++p; while ((x = next()));'
expect "$assigns" 'for (; (x = next());) ++p;'
expect "$assigns" 'x = (p = next()) ? q : r;'
expect "$assigns" 'if (ANY(i, p, (x = i) > 3)) return 1;'
expect '' 'while ((x = next())) ++p;'
expect '' 'while ((x = next()) != -1) ++p; while ((x = (int)(unsigned)next())) ++p;'
expect '' 'for (x = next(); x > 0; x = next()) ++p; if (x == p || x <= q || x >= r || x != s) return 1;'
expect '' 'if (ANY(i, p, i > 3)) return 1; if (LARGER(p, q)) x = 3;'
expect '^launcher/code.c:4: EACH has an assignment in a condition' 'EACH(y) x += y;' '#define EACH(i) for (int i; (i = next()) != 0;)'

# A function of a header, one with attributes, and a folder that is no part of the product.
dense='x = p ? q : r ? s : t;'
expect '^launcher/code.c:4: marked has' ';' "static int __attribute__((format(printf, 1, 2))) marked(const char *f, ...) { int x = f[0]; $dense return x; }"
printf 'static inline int\nin_header(int x)\n{\n    extern int p, q, r, s, t;\n    %s\n    return x;\n}\n' "$dense" >launcher/code.h
expect '^launcher/code.h:5: in_header has' ';' '#include "launcher/code.h"'
mkdir -p others
mv launcher/code.h others/
expect '' ';' '#include "others/code.h"'

# A file that does not compile fails; it is not passed over.
expect '^\^ clang-query$' 'x = ;'
expect '^\^ clang-query$' ';' '#include "launcher/missing.h"'
mkdir bin
ln -s "$(command -v dirname)" "$(command -v nproc)" bin/
finds '^no clang-query: ' 'no clang-query' env "PATH=$work/bin" "$BASH" "$lint/density.sh" build

# The table: a function may move to another file of its folder.
code "$dense"
echo 'launcher planted nested' >"$table"
finds '' 'a row' density
mv launcher/code.c launcher/moved.c
compiled launcher/moved.c >build/compile_commands.json
finds '' 'a row whose function is in another file' density
echo 'launcher planted chain' >"$table"
finds '^launcher planted chain: no longer dense$' 'a row of another kind' density
finds '^launcher/moved.c:9: planted has' 'another kind' density
mv launcher/moved.c launcher/code.c
compiled launcher/code.c >build/compile_commands.json
printf 'launcher planted nested\nlauncher gone chain\n' >"$table"
finds 'disorder: launcher gone chain$' 'rows out of order' density
printf 'launcher gone chain\nlauncher planted nested\n' >"$table"
finds '^launcher gone chain: no longer dense$' 'a row that is out of date' density
finds '' 'taking it out' density --write
[ "$(grep -v '^#' "$table")" = 'launcher planted nested' ] || complain "--write leaves $(cat "$table")"
code "$dense if ((x = next())) return 1;"
finds "$assigns" '--write and a new function' density --write
[ "$(grep -v '^#' "$table")" = 'launcher planted nested' ] || complain "--write puts in $(cat "$table")"
rm "$table"
finds '^no tests/lint/density.txt: ' 'no table' density
finds '' 'making it' density --write
[ "$(grep -c '^launcher planted ' "$table")" -eq 2 ] || complain "--write makes $(cat "$table")"
finds 'unknown option' 'an option' density --add

# Its history.
commit() {
    git add -A && git -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false commit -q --no-verify -m "$1"
}
late='^launcher planted assigns: a row that was put in after the table was made$'
if command -v git >/dev/null; then
    git init -q
    finds '' 'no commit' density
    commit 'the table'
    finds '' 'the first commit' density
    code "$dense"
    finds '^launcher planted assigns: no longer dense$' 'a row that is no longer dense' density
    finds '' 'taking it out' density --write
    finds '' 'one row less' density
    commit 'a row less'
    finds '' 'one row less, committed' density
    code "$dense if ((x = next())) return 1;"
    printf 'launcher planted assigns\nlauncher planted nested\n' >"$table"
    finds "$late" 'a row that is put in' density
    commit 'a row more'
    finds "$late" 'a row that was put in' density
    echo '# another comment' >>"$table"
    commit 'another comment'
    finds "$late" 'a row that was put in, and a later change' density
    git clone -q --depth 1 "file://$work" shallow
    compiled shallow/launcher/code.c | sed "s,$work/build,$work/shallow/build,; s,-I$work ,-I$work/shallow ," >compile_commands.json
    mkdir -p shallow/build
    mv compile_commands.json shallow/build/
    finds '' 'a clone without history' env "DENSITY_ROOT=$work/shallow" bash "$lint/density.sh" build
fi
finish 'density.sh finds what is dense, and its table only shrinks'
