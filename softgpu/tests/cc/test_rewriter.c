/*
 * test_rewriter.c - the rewriter on text that tempts a lexer: what it makes of CUDA's forms, that it leaves plain C++
 * as it is, and that every line stays where it was. rewriter.txt has the sources.
 */
#include "rewrite.h"

#include "tests/lib/test.h"

/* The rewritten source, or NULL if it was refused; the caller frees it. */
static char *
rewritten_with(const char *source, const struct rewrite_options *options)
{
    struct text out = {0};
    text_append(&out, "", 0);
    if (!rewrite(source, strlen(source), options, &out)) {
        text_free(&out);
        return NULL;
    }
    return out.data;
}

static char *
rewritten(const char *source, bool is_relocatable)
{
    return rewritten_with(source, &(struct rewrite_options){.is_relocatable = is_relocatable});
}

static char *
without_blanks(const char *text)
{
    char *copy = malloc(strlen(text) + 1), *out = copy;
    for (; *text != '\0'; ++text) {
        if (strchr(" \t\n", *text) == NULL)
            *out++ = *text;
    }
    *out = '\0';
    return copy;
}

static bool
contains(const char *text, const char *piece)
{
    char *a = without_blanks(text), *b = without_blanks(piece);
    const bool found = strstr(a, b) != NULL;
    free(a);
    free(b);
    return found;
}

static size_t
lines(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; ++text)
        count += *text == '\n';
    return count;
}

/* ---- the examples of rewriter.txt ---- */

static struct example {
    char source[1024], piece[512];
    char kind; /* '=', '!' or '?', as the file says */
} examples[512];

enum { EXAMPLES_AT_MOST = sizeof(examples) / sizeof(examples[0]) };

/* How many there are; 0, with which no test runs, where there is no room for all. */
static int
examples_load(void)
{
    FILE *file = fopen(EXAMPLES, "r");
    char line[1024];
    int count = 0;
    bool has_section = false;
    while (file != NULL && count < EXAMPLES_AT_MOST && fgets(line, sizeof(line), file) != NULL) {
        struct example *example = &examples[count];
        size_t end = strcspn(line, "\n");
        if (strncmp(line, "== ", 3) == 0) {
            has_section = true;
        } else if (example->source[0] != '\0' && strchr("=!?", line[0]) != NULL && line[1] == '>') {
            example->source[strlen(example->source) - 1] = '\0'; /* the last line's end is the file's */
            example->kind = line[0];
            snprintf(example->piece, sizeof(example->piece), "%.*s", (int)end - 2, line + 2);
            ++count;
        } else if (has_section) {
            strncat(example->source, line, sizeof(example->source) - strlen(example->source) - 1);
        }
    }
    if (file != NULL)
        fclose(file);
    return count < EXAMPLES_AT_MOST ? count : 0;
}

LOOP_TEST(sources_become_what_the_examples_say, 0, examples_load())
{
    const struct example *example = &examples[_i];
    char *result = rewritten(example->source, false);
    if (example->kind != '=')
        ck_assert_msg(result == NULL, "not refused: %s", example->source);
    if (example->kind == '?')
        result = rewritten_with(example->source, &(struct rewrite_options){.allows_removed = true});
    if (example->kind == '!')
        return;
    ck_assert_msg(result != NULL, "refused: %s", example->source);
    ck_assert_msg(lines(result) == lines(example->source), "lines moved: %s", result);
    if (example->piece[0] != '\0')
        ck_assert_msg(contains(result, example->piece), "\n%s\nbecame\n%s\nwithout\n%s", example->source, result,
                      example->piece);
    else
        ck_assert_str_eq(result, example->source);
    free(result);
}

TEST(relocatable_device_code_keeps_its_linkage)
{
    char *result = rewritten("__device__ int f() { return 1; } __device__ int x;", true);
    ck_assert(contains(result, "int f() { return 1; } int x;"));
    ck_assert(!contains(result, "static int"));
    free(result);
}

/* ---- grid-stride loops: stub<16> ---- */

#define K(text)     "__global__ void k(float *x, const float *y, int n, struct P p) { " text " }"
#define INDEX       "blockIdx.x * blockDim.x + threadIdx.x"
#define STEP        "i += blockDim.x * gridDim.x"
#define LOOP(body)  K("for (int i = " INDEX "; i < n; " STEP ") " body)
#define WHILE(body) K("int i = " INDEX "; while (i < n) { " body " " STEP "; }")

static const struct {
    const char *source;
    bool is_strided;
} strides[] = {
    {LOOP("x[i] = y[i];"), true},
    {LOOP("{ float v = y[i]; if (v < 0) continue; x[i] += v; }"), true},
    {LOOP("{ for (int m = 0; m < 3; ++m) x[i] += y[i] * m; }"), true},
    {LOOP("if (y[i] > 0) x[i % 3] = y[i]; else x[i] = 2;"), false}, /* not read: no block */
    {LOOP("x[i] = p.w[i] + p.scale;"), true},
    {K("for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) "
       "x[i] = 1;"),
     true},
    {K("int i = threadIdx.x + (blockIdx.x * blockDim.x); for (; i < n; " STEP ") x[i] = 1;"), true},
    {K("const int first = " INDEX ", stride = blockDim.x * gridDim.x; const float s = 2.0f * n; "
       "for (int i = first; i < n; i += stride) x[i] = s;"),
     false}, /* a copy of the count is not looked through */
    {K("unsigned i = static_cast<unsigned>(" INDEX "); const int stride = gridDim.x * blockDim.x; if (n == 0) return; "
       "for (; i < n / 4; i = i + stride) x[i] = 1;"),
     true},
    {WHILE("x[i] = y[i];"), true},

    /* What carries something from turn to turn, or stands outside of the loop. */
    {K("float sum = 0; for (int i = " INDEX "; i < n; " STEP ") sum += y[i]; atomicAdd(x, sum);"), false},
    {K("float sum = 0; for (int i = " INDEX "; i < n; " STEP ") { sum += y[i]; x[i] = sum; }"), false},
    {LOOP("x[i] = --n;"), false},
    {LOOP("*x++ = y[i];"), false},
    {LOOP("{ x[i] = 1; i += 1; }"), false},
    {LOOP("{ n <<= 1; x[i] = 1; }"), false},
    {LOOP("p.scale += y[i];"), false},
    {LOOP("p.w[i] = y[i];"), false},
    {LOOP("p.update(y[i]);"), false},
    {LOOP("advance(&n, y[i]);"), false},
    {"__device__ void f(int &i) { ++i; } " LOOP("f(i);"), false},
    {"template <class T> __device__ void f(T &&i) { ++i; } " LOOP("f(i);"), false},
    {"template <class F> __global__ void k(float *x, int n, F f) { for (int i = " INDEX "; i < n; " STEP
     ") x[i] = f(i); }",
     false},
    {LOOP("if (y[i] < 0) break; else x[i] = 1;"), false},
    {LOOP("{ if (y[i] < 0) break; x[i] = 1; }"), false},
    {LOOP("{ if (y[i] < 0) return; x[i] = 1; }"), false},
    {LOOP("x[i] = blockIdx.x;"), false},
    {"__device__ int f() { return blockIdx.x; } " LOOP("x[i] = f();"), false},
    {LOOP("{ x[i] = y[i]; __syncthreads(); }"), false},
    {LOOP("{ static int calls; x[i] = ++calls; }"), false},
    {LOOP("{ auto f = [&] { ++n; }; f(); x[i] = 1; }"), false},
    {"struct place { int i; __device__ place() : i(blockIdx.x) {} }; " LOOP("x[i] = place().i;"), false},
    {"struct place { int i; __device__ place() : i(blockIdx.x) {} }; " LOOP("x[i] = 1;"), true},
    {"struct place { __device__ operator int() { return blockIdx.x; } }; " LOOP("x[i] = 1;"), false},
    {LOOP("x[i] = 1;") " int other() { return 2; }", true},
    {K("for (int i = " INDEX "; i < n; " STEP ") x[i] = 1; x[0] = 2;"), false},
    {K("x[0] = 2; for (int i = " INDEX "; i < n; " STEP ") x[i] = 1;"), false},
    {K("int m = *x; for (int i = " INDEX "; i < m; " STEP ") x[i] = 1;"), false},
    {K("if (threadIdx.x > 3) return; for (int i = " INDEX "; i < n; " STEP ") x[i] = 1;"), false},
    {K("int t = threadIdx.x; if (t == 0) return; for (int i = " INDEX "; i < n; " STEP ") x[i] = 1;"), false},
    {K("int m = n - threadIdx.x; for (int i = " INDEX "; i < m; " STEP ") x[i] = 1;"), false},
    {K("for (int i = " INDEX "; i < n && y[i] > 0; " STEP ") x[i] = 1;"), false},
    {K("for (int i = " INDEX "; i < y[0]; " STEP ") x[i] = 1;"), false},
    {K("for (int i = " INDEX "; i < n; i += blockDim.x) x[i] = 1;"), false},
    {K("for (int i = " INDEX "; i < n; i += 2 * blockDim.x * gridDim.x) x[i] = 1;"), false},
    {K("for (int i = blockIdx.x * (blockDim.x + threadIdx.x); i < n; " STEP ") x[i] = 1;"), false},
    {K("for (int i = blockIdx.x * blockDim.x + threadIdx.x + 1; i < n; " STEP ") x[i] = 1;"), false},
    {K("for (float i = " INDEX "; i < n; " STEP ") x[int(i)] = 1;"), false},
    {K("for (int i = n - (" INDEX "); i > 0; i -= blockDim.x * gridDim.x) x[i] = 1;"), false},
    {WHILE("{ if (y[i] < 0) { " STEP "; continue; } x[i] = y[i]; }"), false},
};

#undef LOOP
#undef K

TABLE_TEST(only_loops_whose_turns_are_independent_are_strided, strides)
{
    char *result = rewritten(strides[_i].source, false);
    ck_assert(result != NULL);
    const char *stub = strstr(result, "softgpu::stub<");
    ck_assert(stub != NULL);
    const int mode = atoi(stub + strlen("softgpu::stub<"));
    ck_assert_msg(((mode & 16) != 0) == strides[_i].is_strided, "mode %d: %s", mode, strides[_i].source);
    ck_assert_msg((strstr(result, "softgpu_turn.single") != NULL) == strides[_i].is_strided, "%s", result);
    free(result);
}
