#!/usr/bin/env bash
# man.sh - ddprun.h(3) has of each macro all that the header's comment says: no words are lost where a line begins with a macro's name, each
# macro has an entry of its own, and examples and paragraphs end where they end in the header. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-man.XXXXXX")
at_exit 'rm -rf "$work"'

cat >"$work/header.h" <<'END'
/*
 * DDP_ONE(ptr): comes before
 * DDP_TWO(id): a program with both calls them in this order.
 *
 *     DDP_ONE(x);
 *     DDP_TWO(1);
 *
 * The second paragraph.
 *
 * The third.
 */
#define DDP_ONE(ptr) one(ptr)

/* DDP_TWO(id): comes second. */
#if 1
#define DDP_TWO(id) two(id)
#endif
END
cat >"$work/expected" <<'END'
.TP
\fBDDP_ONE(ptr)\fR
comes before
DDP_TWO(id): a program with both calls them in this order.
.IP
.nf
    DDP_ONE(x);
    DDP_TWO(1);
.fi
.IP
The second paragraph.
.IP
The third.
.TP
\fBDDP_TWO(id)\fR
comes second.
END
echo '@MACROS@' >"$work/page.in"
bash softgpu/cmake/man.sh "$work/page.in" 1 "$work/header.h" >"$work/page"
check "macros, examples and paragraphs keep all their text" diff "$work/expected" "$work/page"

bash softgpu/cmake/man.sh docs/man/ddprun.h.3.in 1 interpose/include/ddprun.h >"$work/page"
sed -nE 's/^#define (DDP_[A-Z_]*[A-Z]\([^)]*\)).*/\1/p' interpose/include/ddprun.h | grep -v '^DDP_CALL_\|^DDP_NO_SYNC_' | sort -u >"$work/macros"
sed -nE 's/^\\fB(DDP_.*)\\fR$/\1/p' "$work/page" | sort >"$work/entries"
echo 'DDP_NO_SYNC_BEGIN(), DDP_NO_SYNC_END()' | sort - "$work/macros" >"$work/wanted"
check "each macro of ddprun.h has an entry of its own" diff "$work/wanted" "$work/entries"
finish
