/* versions.h - hooks.def as lines of text for versions.sh: row "NAME" VERSION ENDING, one row after each @. */
#define ONE(kind, s, n, v, ...)           @row n v
#define TWO(kind, s, twin, n, v, tv, ...) @row n v @row n tv twin
#include "interpose/shim/hooks.def"
