/* versions.h - hooks.def as lines of text for versions.sh: row "NAME" VERSION ENDING, one row after each @. */
#define OPERATION(s, twin, n, v, tv, ...)     @row n v @row n tv twin
#define LAUNCH(s, twin, shape, n, v, tv, ...) @row n v @row n tv twin
#define ALLOCATION(s, twin, n, v, tv, ...)    @row n v @row n tv twin
#define RELEASE(s, twin, n, v, tv, ...)       @row n v @row n tv twin
#define ALLOCATION_SINGLE(s, n, v, ...)       @row n v
#define RELEASE_SINGLE(s, n, v, ...)          @row n v
#define NOTIFICATION(s, n, v, ...)            @row n v
#define MODULE(s, n, v, ...)                  @row n v
#define GRAPH(s, n, v, ...)                   @row n v
#define GRAPH_STREAM(s, twin, n, v, tv, ...)  @row n v @row n tv twin
#define WAIT(s, twin, n, v, tv, ...)          @row n v @row n tv twin
#define WAIT_SINGLE(s, n, v, ...)             @row n v
#define RECORDED(s, n, v, ...)                @row n v
#include "interpose/shim/hooks.def"
