/*
 * test_rewriter.c - the rewriter on text that tempts a lexer: what it makes of CUDA's forms, that it leaves plain C++
 * as it is, and that every line stays where it was.
 */
#include "rewrite.h"

#include "tests/test.h"

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

struct example {
    const char *source;
    const char *piece; /* of the result; NULL: the result is the source */
};

static void
expect(const struct example *example)
{
    char *result = rewritten(example->source, false);
    ck_assert_msg(result != NULL, "refused: %s", example->source);
    ck_assert_msg(lines(result) == lines(example->source), "lines moved: %s", result);
    if (example->piece != NULL)
        ck_assert_msg(contains(result, example->piece), "\n%s\nbecame\n%s\nwithout\n%s", example->source, result,
                      example->piece);
    else
        ck_assert_str_eq(result, example->source);
    free(result);
}

#define EXAMPLES(test_name, table) \
    TABLE_TEST(test_name, table)   \
    {                              \
        expect(&(table)[_i]);      \
    }

/* ---- launches ---- */

#define PUSHED(config, call) "(::softgpu::push_config(" config ") ? (void)0 : " call ")"

static const struct example launches[] = {
    {"void f() { k<<<1, 2>>>(a); }", PUSHED("1, 2", "k(a)") ";"},
    {"void f() { k <<< 1,\n 2\n >>>\n (a) ; }", PUSHED("1,2", "k(a)") ";"},
    {"void f() { k << <1, 2 >> >(a); }", PUSHED("1, 2", "k(a)") ";"},
    {"void f() { k<A<B> > << < 1, 2 >>\n> (a); }", PUSHED("1, 2", "k<A<B>>(a)") ";"},
    {"void f() { k << <A<B<C> > >(x), 2 >> >(a); }", PUSHED("A<B<C>>>(x), 2", "k(a)")},
    {"void f() { k<A<B<C>>><<<1, 2>>>(a); }", PUSHED("1, 2", "k<A<B<C>>>(a)")},
    {"void f() { k<A<B<C>>>(x), 2>>>(a); }", NULL},
    {"void f() { k<<<A<B<C<D>>>(x), 2>>>(a); }", PUSHED("A<B<C<D>>>(x), 2", "k(a)")},
    {"void f() { k<<<(a >> b), c >> 1>>>(d); }", PUSHED("(a >> b), c >> 1", "k(d)")},
    {"void f() { k<<<n < 10 ? 1 : 2, 3>>>(d); }", PUSHED("n < 10 ? 1 : 2, 3", "k(d)")},
    {"void f() { k<(x > 3), sizeof(T)><<<g, b, s, t>>>(d, {1, 2}); }",
     PUSHED("g, b, s, t", "k<(x > 3), sizeof(T)>(d, {1, 2})")},
    {"void f() { ns::inner::k<T><<<1, 2>>>(a); }", PUSHED("1, 2", "ns::inner::k<T>(a)")},
    {"void f() { return ::k<<<1, 2>>>(a); }", "return " PUSHED("1, 2", "::k(a)")},
    {"void f() { if (x) k<<<1, 2>>>(a); else j<<<3, 4>>>(b); }",
     "if (x) " PUSHED("1, 2", "k(a)") "; else " PUSHED("3, 4", "j(b)") ";"},
    {"void f() { this->table[i]<<<1, 2>>>(a); }", PUSHED("1, 2", "this->table[i](a)")},
    {"void f() { (*p)<<<1, 2>>>(a); }", PUSHED("1, 2", "(*p)(a)")},
    {"void f() { get(x, y)<<<1, 2>>>(a); }", PUSHED("1, 2", "get(x, y)(a)")},
    {"void f() { for (;;) (k)<<<1, 2>>>(a); }", "for (;;)" PUSHED("1, 2", "(k)(a)")},
    {"void f() { s.template k<int><<<1, 2>>>(a); }", PUSHED("1, 2", "s.template k<int>(a)")},
    {"void f() { A<B>::k<<<1, 2>>>(a); }", PUSHED("1, 2", "A<B>::k(a)")},
    {"void f() { k<<<1, 2>>>(a), j<<<f<A<B>>(3), 4>>>(b); }",
     PUSHED("1, 2", "k(a)") ", " PUSHED("f<A<B>>(3), 4", "j(b)")},
    {"void f() { k<<<1, 2>>>(g(j<int>(3)), [&] { return 1; }()); }",
     PUSHED("1, 2", "k(g(j<int>(3)), [&] { return 1; }())")},
    {"void f() { k<<<dim3{1, 2}, [] { return 3; }()>>>(args...); }",
     PUSHED("dim3{1, 2}, [] { return 3; }()", "k(args...)")},
};

EXAMPLES(launches_become_calls, launches)

/* ---- what is no launch, and no CUDA at all ---- */

static const struct example left_alone[] = {
    {"const char *s = \"k<<<1, 2>>>(a)\"; // k<<<1>>>(b)\n/* k<<<1>>>(c) */", NULL},
    {"const char *s = R\"x(k<<<1, 2>>>(a) \" __global__ {)x\";\n", NULL},
    {"const char *s = u8R\"(\n'\n\"\n)\"; char c = '\"'; char d = '\\''; wchar_t e = L'{';", NULL},
    {"int n = 1'000'000; double x = 1e-5 + 0x1p-3 + .5f; auto y = 10_km;", NULL},
    {"int a = b << c; bool d = e >> f > g; std::vector<std::vector<std::vector<int>>> v;", NULL},
    {"std::ostream &operator<<(std::ostream &o, T t) { return operator<< <int>(o, t); }", NULL},
    {"struct A : B<C> { A(int x) : a(x), b{x} { f(); } ~A() {} operator int() const { return a; } int a, b; };", NULL},
    {"bool a = b < c << d < e; auto g = &operator<< <T>; auto h = A::operator<< <T>(x) >> (y);", NULL},
    {"#pragma once\n# 7 \"x.h\" 1\nint a;\n# 3 \"main.cu\" 2\nint b;\n", NULL},
    {"template <class T, class = enable_if_t<(sizeof(T) > 4)>> T f(T t) { return t < 3 ? t : T{}; }", NULL},
    {"enum class e { a, b }; namespace n { namespace { int x; } } extern \"C\" { int y; } extern \"C\" int z();", NULL},
    {"auto f = [](auto x) -> decltype(x) { return x; }; int g = f(3) > 2 ? 1 : 0;", NULL},
};

EXAMPLES(plain_text_is_left_alone, left_alone)

/* ---- parameters of kernels ---- */

static const struct example parameters[] = {
    {"__global__ void k(int n) { }", "void k(int softgpu_parameter_n) {"},
    {"__global__ void k(const float *__restrict__ x) { }", "void k(const float *__restrict__ softgpu_parameter_x) {"},
    {"__global__ void k(float x[], int m[3][N]) { }",
     "void k(float softgpu_parameter_x[], int softgpu_parameter_m[3][N]) {"},
    {"__global__ void k(void (*call)(int, char), int (*rows)[4]) { }",
     "void k(void (*softgpu_parameter_call)(int, char), int (*softgpu_parameter_rows)[4]) {"},
    {"__global__ void k(int (A::*member)(int)) { }", "void k(int (A::*softgpu_parameter_member)(int)) {"},
    {"__global__ void k(int, unsigned long, const T, ns::T, struct S) { }",
     "void k(int softgpu_parameter_0, unsigned long softgpu_parameter_1, const T softgpu_parameter_2, ns::T "
     "softgpu_parameter_3, struct S softgpu_parameter_4) {"},
    {"__global__ void k(void (*)(int), float[], T *const) { }",
     "void k(void (* softgpu_parameter_0)(int), float softgpu_parameter_1[], T *const softgpu_parameter_2) {"},
    {"template <class... A> __global__ void k(A... a) { }", "void k(A... softgpu_parameter_a) {"},
    {"template <class... A> __global__ void k(A...) { }", "void k(A... softgpu_parameter_0) {"},
    {"template <class... A> __global__ void k(A... a) { }", ", decltype(softgpu_parameter_a)... a)"},
    {"template <class... A> __global__ void k(A... a) { }", "__builtin_addressof(softgpu_parameter_a)..."},
    {"__global__ void k(std::pair<int, A<B, C>> p, unsigned n = sizeof(A<B>)) { }",
     "void k(std::pair<int, A<B, C>> softgpu_parameter_p, unsigned softgpu_parameter_n = sizeof(A<B>)) {"},
    {"__global__ void k(int a = f(1, 2), int b = x < y, int c = 3) { }",
     "void k(int softgpu_parameter_a = f(1, 2), int softgpu_parameter_b = x < y, int softgpu_parameter_c = 3) {"},
    {"__global__ void k(dim3 dim3, __grid_constant__ const P p) { }",
     "void k(dim3 softgpu_parameter_dim3, const P softgpu_parameter_p) {"},
    {"__global__ void k(__attribute__((aligned(16))) float4 v, alignas(8) int n) { }",
     "void k(__attribute__((aligned(16))) float4 softgpu_parameter_v, alignas(8) int softgpu_parameter_n) {"},
    {"__global__ void k(decltype(T()) a, typename T::type b, typename T::type) { }",
     "void k(decltype(T()) softgpu_parameter_a, typename T::type softgpu_parameter_b, typename T::type "
     "softgpu_parameter_2) {"},
    {"__global__ void k(void) { }", "void k(void) {"},
    {"__global__ void k(int a, decltype(a) *b, int c = a) { }",
     "void k(int softgpu_parameter_a, decltype(softgpu_parameter_a) *softgpu_parameter_b, int softgpu_parameter_c = a) "
     "{"},
    {"__global__ void k(int kernel, int body) { }", "softgpu_kernel { char tag; }; auto softgpu_body = "},
    {"__global__ void k(int kernel, int body) { }",
     "void k(int softgpu_parameter_kernel, int softgpu_parameter_body) {"},
    {"__global__ void k(const unsigned n, T const t) { }",
     "void k(const unsigned softgpu_parameter_n, T const softgpu_parameter_t) {"},
    {"__global__ void __launch_bounds__(N * 2, 3) k() { }", "__PRETTY_FUNCTION__, (N * 2));"},
    {"template <> __global__ void k<float>(float *p) { }", "template <> void k<float>(float *softgpu_parameter_p) {"},
};

EXAMPLES(parameters_are_found, parameters)

/* ---- linkage of device code ---- */

static const struct example linkage[] = {
    {"__device__ float f(float x) { return x; }", "static __attribute__((unused)) float f(float x)"},
    {"__device__ float f(float);", "static __attribute__((unused)) float f(float);"},
    {"template <class T> __device__ T f(T x) { return x; }",
     "template <class T> static __attribute__((unused)) T f(T x)"},
    {"__host__ __device__ float f(float x) { return x; }", "float f(float x) { return x; }"},
    {"struct A { __device__ int f() { return 1; } };", "struct A { int f() { return 1; } };"},
    {"struct A { friend __device__ int f(); };", "struct A { friend int f(); };"},
    {"__device__ int A::f() { return 1; }", "inline int A::f() { return 1; }"},
    {"template <> __device__ int f<int>() { return 1; }", "template <> inline int f<int>() { return 1; }"},
    {"template __device__ int f<int>();", "template int f<int>();"},
    {"static inline __device__ int f() { return 1; }", "static inline int f() { return 1; }"},
    {"extern \"C\" __device__ int f();", "extern \"C\" int f();"},
    {"__device__ float x = 2, *y[3];", "static float x = 2, *y[3]; static ::softgpu::variable"},
    {"namespace n { __constant__ int c[3] = {1, 2, 3}; }", "(__builtin_addressof(c), sizeof(c), \"c\", true);"},
    {"extern __device__ int x;", "extern int x;"},
    {"extern __device__ int x; __device__ int x = 3;", "; int x = 3;"},
    {"template <class T> __device__ T x = 3;", "template <class T> T x = 3;"},
    {"__global__ void k(); void __global__ k() { }",
     "__attribute__((visibility(\"hidden\"))) void k(); void __attribute__((visibility(\"hidden\"))) k() {"},
    {"static __global__ void k() { }", "static void k() {"},
    {"template <class T> __global__ void k() { }", "template <class T> static __attribute__((unused)) void k() {"},
    {"auto f = [=] __device__ (int i) { return i; };", "auto f = [=] (int i) { return i; };"},
    {"__device__ __noinline__ int f() { return 1; }", "__attribute__((noinline)) int f()"},
    {"__device__ __attribute__((__noinline__)) int f() { return 1; }", "__attribute__((__noinline__)) int f()"},
};

EXAMPLES(device_code_belongs_to_its_file, linkage)

TEST(relocatable_device_code_keeps_its_linkage)
{
    char *result = rewritten("__device__ int f() { return 1; } __device__ int x;", true);
    ck_assert(contains(result, "int f() { return 1; } int x;"));
    ck_assert(!contains(result, "static int"));
    free(result);
}

/* ---- which kernels may wait: stub<1 bit: fibers; 2: indices> ---- */

static const struct {
    const char *source;
    int mode;
} modes[] = {
    {"__global__ void k(float *x) { x[threadIdx.x] = 1; }", 0},
    {"__global__ void k() { __syncthreads(); }", 3},
    {"__device__ void f() { __syncthreads(); } __global__ void k() { f(); }", 3},
    {"__device__ void f() { __shfl_sync(1, 2, 3); } __device__ void g() { f(); } __global__ void k() { g(); }", 3},
    {"__device__ int f() { return threadIdx.x; } __global__ void k() { f(); }", 2},
    {"__device__ int f() { return blockIdx.x; } __global__ void k() { int i = f(); }", 2},
    {"__device__ unsigned f() { return blockIdx.x; } __global__ void k() { int i = f(); }", 6},
    {"__device__ size_t f() { return (size_t)blockIdx.x; } __global__ void k() { size_t i = f(); }", 14},
    {"__device__ int f() { return 1; } __global__ void k() { f(); }", 0},
    /* What a value may be is known: functions named without a call, lambdas, operators. */
    {"__global__ void k(int (*f)(int)) { f(1); }", 0},
    {"__device__ void g() { __syncwarp(); } __device__ void (*p)() = g; __global__ void k(void (*f)()) { f(); }", 3},
    {"__device__ void g() { __syncwarp(); } __global__ void j() { g(); } __global__ void k(void (*f)()) { f(); }", 0},
    {"__device__ int g() { return blockIdx.x; } __device__ int (*p)() = g; __global__ void k(int (*f)()) { f(); }", 2},
    {"template <class F> __global__ void k(F f) { f(1); }", 0},
    {"template <class F> __global__ void k(int *x) { x[0] = F()(1); }", 0},
    {"template <class F> __global__ void k(F f) { f(1); } auto g = [] __device__(int) { __syncthreads(); };", 3},
    {"template <class F> __global__ void k(F f) { f(1); } auto g = [] __device__(int) { return threadIdx.x; };", 2},
    {"__global__ void k(int *x) { auto f = [=](int i) { return x[i]; }; x[1] = f(2); }", 0},
    {"__global__ void k(int *x) { auto f = [=](int i) { return x[i]; }; x[1] = f(2); } auto g = [] __device__ { "
     "__syncthreads(); };",
     0},
    {"__global__ void k(void (*f)(int)) { { auto f = [=](int i) { }; f(2); } f(3); } auto g = [] __device__ { "
     "__syncthreads(); };",
     3},
    {"template <class F> __global__ void k(F f) { f(1); } void h() { auto g = [](int) { other(); }; }", 0},
    {"template <class F> __global__ void k(F f) { f(1); } void h() { auto g = [] __device__(int) { other(); }; }", 3},
    {"template <class F> __global__ void k(F f) { f(1); } __device__ void h() { auto g = [](int) { other(); }; }", 3},
    {"template <class F> __global__ void k(F f) { f(1); } auto g = [](int) { other(); };", 3},
    {"template <class F> __global__ void k(F f) { f(1); } constexpr auto h() { return [](int) { other(); }; }", 3},
    {"__global__ void k(int *x) { auto f = [=](int i) { __syncthreads(); }; f(2); }", 3},
    {"__global__ void k(int *x) { (*x)++; if (x[0]) (void)(x[1] + 2); float y = (float)(x[2]); x[3] = int(y); }", 0},
    {"__device__ void f() { __syncthreads(); } template <void (*g)()> __global__ void k() { g(); } void h() { "
     "k<f><<<1, 1>>>(); }",
     3},
    {"struct A { __device__ int operator+(int) const { __syncthreads(); return 1; } }; __global__ void k(A a) { a + 1; "
     "}",
     3},
    {"struct A { __device__ int operator+(int) const { return threadIdx.x; } }; __global__ void k(A a) { a + 1; }", 2},
    {"struct A { A(int); }; __global__ void k() { A a(3); int i(4); }", 0},
    {"__device__ int f(int); __global__ void k() { f(3); }", 3},
    {"__global__ void k(float *x) { __shared__ typename R::TempStorage t; x[0] = R(t).Sum(x[1]); }", 3},
    {"void host() { __syncthreads(); } __global__ void k() { }", 0},
    {"__device__ void f(volatile float *s) { s[0] += s[1]; } __global__ void k(float *s) { f(s); }", 3},
};

TABLE_TEST(kernels_that_may_wait_are_known, modes)
{
    char wanted[64];
    char *result = rewritten(modes[_i].source, false);
    ck_assert(result != NULL);
    snprintf(wanted, sizeof(wanted), "softgpu::stub<%d,", modes[_i].mode);
    ck_assert_msg(strstr(result, wanted) != NULL, "not %s: %s", wanted, modes[_i].source);
    free(result);
}

/* ---- conversions to integers ---- */

#define CAST(type) "(::softgpu::cast<" type ">)"
#define WRAP(type) "::softgpu::cast<" type ">("

static const struct example casts[] = {
    {"__device__ int f(float x) { return (int)x; }", "return (int)" CAST("int") "x;"},
    {"__device__ int f(float x) { return -(unsigned long)(x) + (char)*p; }",
     "-(unsigned long)" CAST("unsigned long") "(x) + (char)" CAST("char") "*p;"},
    {"__device__ float f(float x) { return (float)(int)x; }", "(float)(int)" CAST("int") "x;"},
    {"__device__ int f(float x) { return int(x) + static_cast<int>(x); }",
     "int(" WRAP("int") "x)) + static_cast<int>(" WRAP("int") "x));"},
    {"template <typename T> __device__ T f(float x) { return (T)x + T(x) + static_cast<T>(x); }",
     "(T)" CAST("T") "x + T(" WRAP("T") "x)) + static_cast<T>(" WRAP("T") "x));"},
    {"__global__ void k(float x) { const int i = x * 2, j = g(x); uint8_t b = 1 + x; }",
     "const int i =" WRAP("int") " x * 2), j =" WRAP("int") " g(x)); uint8_t b =" WRAP("uint8_t") " 1 + x);"},
    {"void h() { auto f = [=] __device__(float x) { return (int)x; }; }", "return (int)" CAST("int") "x;"},
    {"template <class F> struct A; template <float (*F)(float)> __device__ float f(float x) { return F(x) + (F)(x); } "
     "template <class F> __device__ F g(float x) { return (F)x; }",
     "{ return F(x) + (F)(x); } template <class F> static __attribute__((unused))  F g(float x) { return (F)" CAST(
         "F") "x"},
    {"__device__ void f(bool *b, float x) { b[1] = 0; b[0] = int(x) > 3; }", "b[0] = int(" WRAP("int") "x)) > 3;"},
    {"template <class N> void h(N n); template <int N> __device__ int f(float x) { return (N) + x; }",
     "{ return (N) + x; }"},

    /* Nothing that can be out of range, no conversion, or the host's. */
    {"int h(float x) { int i = x * 2; return (int)x + int(x) + static_cast<int>(x); }", NULL},
    {"__device__ int f(float x) { return (float)x + (bool)x + static_cast<float *>(p) + (int)3 + sizeof(int) * n; }",
     "f(float x) { return (float)x + (bool)x + static_cast<float *>(p) + (int)3 + sizeof(int) * n; }"},
    {"__global__ void k() { int i = blockIdx.x * blockDim.x + threadIdx.x; long j = (long)threadIdx.x; }",
     "{ int i = blockIdx.x * blockDim.x + threadIdx.x; long j = (long)threadIdx.x; }"},
    {"__device__ int f(int (*g)(int)) { int (x); int n = 3; int a[2] = {1, 2}; h<int(float)>(g); return (n) - x; }",
     "{ int (x); int n = 3; int a[2] = {1, 2}; h<int(float)>(g); return (n) - x; }"},
    {"__device__ int f(int n) { auto g = [](int) -> int { return 1; }; return g(n) + (n)(3) + T(n); }",
     "{ auto g = [](int) -> int { return 1; }; return g(n) + (n)(3) + T(n); }"},
};

EXAMPLES(conversions_to_integers_hold_to_the_range, casts)

/* ---- threadIdx and its relatives ---- */

#define HERE(member) " ::softgpu_here->" member

static const struct example indices[] = {
    {"__device__ int f() { return threadIdx.x + ::blockIdx.y; }", "return" HERE("thread") ".x +" HERE("block") ".y;"},
    {"__host__ __device__ int f() { return gridDim.z; }", HERE("grid_dim") ".z;"},
    {"struct A { int i = threadIdx.x; };", "int i =" HERE("thread") ".x;"},
    {"struct A { __device__ A() : i(blockDim.x) { } int i; };", "i(" HERE("block_dim") ".x)"},
    {"__global__ void k() { auto f = [] { return threadIdx.x; }; }", "[] { return" HERE("thread") ".x; }"},
    {"__global__ void k(int n) { auto f = [n] { return threadIdx.x + n; }; }", "return" HERE("thread") ".x + n;"},
    {"__global__ void k() { struct A { int f() { return threadIdx.x; } }; }", "return" HERE("thread") ".x; }"},
    {"void h() { auto f = [=] __device__(int i) { return threadIdx.x + i; }; }", HERE("thread") ".x + i;"},

    /* Not CUDA's: variables of these names. */
    {"void h() { dim3 blockDim(16, 16), gridDim(2); k(gridDim, blockDim); }", NULL},
    {"void launch(dim3 gridDim, dim3 blockDim, int n);", NULL},
    {"struct config { dim3 gridDim, blockDim; };", NULL},
    {"struct config { dim3 grid, blockDim; void set(dim3 b) { blockDim = b; } };", NULL},
    {"struct config { config(dim3 g) : gridDim(g) { } dim3 gridDim; };", NULL},
    {"int f(config c) { return c.blockDim.x + p->gridDim.x; }", NULL},
    {"struct config { dim3 blockDim; __host__ __device__ int threads() { return blockDim.x; } };",
     "int threads() { return blockDim.x; }"},
    {"struct config { dim3 grid, blockDim; __device__ int threads() { return blockDim.x; } };",
     "int threads() { return blockDim.x; }"},
    {"struct config { dim3 blockDim; __device__ int threads(); }; __device__ int config::threads() { return "
     "blockDim.x; }",
     "config::threads() { return blockDim.x; }"},
    {"struct config { dim3 blockDim; }; __device__ int f() { return blockDim.x; }", "return" HERE("block_dim") ".x;"},
    {"__device__ int f(dim3 blockDim) { return blockDim.x; }", "return blockDim.x;"},
    {"__device__ int f() { const uint3 threadIdx = g(); return threadIdx.x; }", "return threadIdx.x;"},
    {"__device__ int f(int blockDim, int gridDim) { return blockDim * gridDim + blockIdx.x; }",
     "return blockDim * gridDim +" HERE("block") ".x;"},
    {"template <int blockDim> __device__ int f() { return blockDim; }", "f() { return blockDim; }"},
    {"template <class T, int... gridDim> __device__ int f() { return g(gridDim...); }", "return g(gridDim...);"},
    {"template <int blockDim> struct A { __device__ int f() { return blockDim + blockIdx.x; } };",
     "return blockDim +" HERE("block") ".x;"},
    {"template <int blockDim> struct A; __device__ int f() { return blockDim.x; }",
     "f() { return" HERE("block_dim") ".x;"},
    {"struct A { int n; __device__ A(int blockDim) : n{blockDim} { g(blockDim); } };",
     "A(int blockDim) : n{blockDim} { g(blockDim); }"},
    {"__device__ int f() { int x = threadIdx.x; { int threadIdx = x; g(threadIdx); } return threadIdx.x; }",
     "int x =" HERE("thread") ".x; { int threadIdx = x; g(threadIdx); } return" HERE("thread") ".x;"},
    {"__device__ int f() { for (int blockIdx = 0; blockIdx < 3; ++blockIdx) g(blockIdx); return blockIdx.x; }",
     "++blockIdx) g(blockIdx); return" HERE("block") ".x;"},
    {"__device__ int f() { auto g = [](int gridDim) { return gridDim; }; return g(gridDim.x); }",
     "[](int gridDim) { return gridDim; }; return g(" HERE("grid_dim") ".x);"},
    {"__device__ int f() { const dim3 a(1), blockDim(2); return blockDim.x; }", "blockDim(2); return blockDim.x;"},
    {"namespace n { template <int blockDim> __global__ void a() { } } __device__ int f() { return blockDim.x; }",
     "return" HERE("block_dim") ".x;"},
    {"namespace n { template <int blockDim> struct A; __device__ int f() { return blockDim.x; } }",
     "return" HERE("block_dim") ".x;"},
    {"namespace n { __device__ int f() { return blockDim.x; } const int blockDim = 3; }",
     "return" HERE("block_dim") ".x; } const int blockDim = 3;"},
    {"namespace n::m { const int blockDim = 3; __device__ int f() { return blockDim; } }", "return blockDim; }"},
    {"__device__ int f() { return g(a, blockDim) + h(blockIdx); }",
     "return g(a," HERE("block_dim") ") + h(" HERE("block") ");"},

    /* A kernel's own: its code has no such parameter, or a block in which the name can be declared again. */
    {"template <int gridDim> __global__ void k(int *p) { *p = gridDim; }",
     "const ::dim3 blockDim __attribute__((unused)), const ::dim3 __attribute__((unused)), "
     "decltype(softgpu_parameter_p) p)"
     "__attribute__((always_inline)) -> void {{ *p = gridDim; }};"},
    {"__global__ void k(int threadIdx) { f(threadIdx, ::threadIdx); }",
     "[](const ::uint3 __attribute__((unused)), const ::uint3 blockIdx __attribute__((unused)),"},
    {"__global__ void k(int threadIdx) { f(threadIdx, ::threadIdx); }", "f(threadIdx," HERE("thread") ");"},
    {"__global__ void k() { int x = blockIdx.x; int blockIdx = x; }",
     "const ::dim3 gridDim __attribute__((unused))) __attribute__((always_inline)) -> void {{ int x = blockIdx.x;"},
    {"namespace n { template <int gridDim> __global__ void a() { } __global__ void k() { f(gridDim); } }",
     "const ::dim3 gridDim __attribute__((unused))) __attribute__((always_inline)) -> void { f(gridDim);"},
    {"namespace n { const int gridDim = 3; __global__ void k() { f(gridDim); } }",
     "const ::dim3 __attribute__((unused))) __attribute__((always_inline)) -> void {{ f(gridDim);"},
    {"template <int gridDim> struct A { static __global__ void k() { f(gridDim); } };",
     "const ::dim3 __attribute__((unused))) __attribute__((always_inline)) -> void {{ f(gridDim);"},
    {"__global__ void k() { auto f = [=] { return threadIdx.x; }; }", "[=] { return threadIdx.x; }"},
    {"__global__ void k() { auto f = [&] { return threadIdx.x; }; }", "[&] { return threadIdx.x; }"},
};

EXAMPLES(indices_are_cudas_where_nothing_else_is_meant, indices)

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

/* ---- shared memory ---- */

static const struct example shared[] = {
    {"__global__ void k() { __shared__ float a[N], *b; }",
     "struct softgpu_shared_0 { float a[N], *b; }; auto &a __attribute__((unused)) = "
     "::softgpu::shared<softgpu_shared_0, softgpu_kernel>().a;"
     " auto &b __attribute__((unused)) = ::softgpu::shared<softgpu_shared_0, softgpu_kernel>().b;"},
    {"__global__ void k() { static volatile __shared__ std::pair<A, B> p; }",
     "struct softgpu_shared_0 { volatile std::pair<A, B> p; };"},
    {"__global__ void k() { __attribute__((aligned(16))) __shared__ char c[4]; }",
     "struct softgpu_shared_0 { __attribute__((aligned(16))) char c[4]; };"},
    {"__global__ void k() { __shared__ union { A a; int b[2]; } u; }",
     "struct softgpu_shared_0 { union { A a; int b[2]; } u; }; auto &u __attribute__((unused)) ="},
    {"__global__ void k() { __shared__ struct alignas(8) S { int a; } s[2], t; }",
     ">().s; auto &t __attribute__((unused)) = ::softgpu::shared<softgpu_shared_0, softgpu_kernel>().t;"},
    {"__global__ void k() { extern __shared__ float d[][4]; }", "struct softgpu_shared_0 { float d[1][4]; };"},
    {"__global__ void k() { __shared__ int s; auto f = [=] { return s; }; }", "[=, &s]"},
    {"__global__ void k() { __shared__ int s; auto f = [] { return s; }; }", "[&s]"},
    {"__global__ void k(int n) { __shared__ int s; auto f = [n] { return s + n; }; }", "[n, &s]"},
    {"__global__ void k() { __shared__ int s; auto f = [&] { return s; }; }", "[&] { return s; }"},
    {"__global__ void k() { __shared__ int s; auto f = [=] { return 1; }; }", "[=] { return 1; }"},
    {"__global__ void k(int *x) { __shared__ int s; x[s] = x[x[s]]; delete[] x; }", "x[s] = x[x[s]]; delete[] x;"},
};

EXAMPLES(shared_variables_are_placed, shared)

/* ---- what CUDA 13 no longer has ---- */

#define PROPERTY(attribute, object) "::softgpu::removed_property(" attribute ", " object ")"

/* Without --allow-removed these are errors. */
static const struct example removed[] = {
    {"int f() { return cudaThreadSynchronize(); }", "return cudaDeviceSynchronize();"},
    {"int f() { ::cudaThreadExit(); return ::cudaThreadExit(); }", "return ::cudaDeviceReset();"},
    {"__device__ int f(int x) { return __shfl(x, 3); }", "return __shfl_sync([] { static const char site = 0;"},
    {"__device__ int f(int x) { return __shfl(x, 3); }", "(&site); }(), x, 3);"},
    {"int f() { cudaDeviceProp p; return p.clockRate; }", "return" PROPERTY("cudaDevAttrClockRate", "p") ";"},
    {"int f(const cudaDeviceProp *p) { return -p[3].computeMode; }",
     "return -" PROPERTY("cudaDevAttrComputeMode", "p[3]") ";"},
    {"int f(cudaDeviceProp *p) { return p->clockRate / 2; }", PROPERTY("cudaDevAttrClockRate", "*p") " / 2;"},
    {"int f(cudaDeviceProp *p) { return (*p).clockRate; }", PROPERTY("cudaDevAttrClockRate", "(*p)") ";"},
    {"struct S { int f() { return p.clockRate; } cudaDeviceProp p; };", PROPERTY("cudaDevAttrClockRate", "p") ";"},
    {"int f(std::vector<cudaDeviceProp> &v) { return v[0].clockRate; }", PROPERTY("cudaDevAttrClockRate", "v[0]") ";"},
    {"int f() { cudaDeviceProp a, b; return s.b.clockRate; }", PROPERTY("cudaDevAttrClockRate", "s.b") ";"},
};

/* The user's own, never an error. */
static const struct example not_removed[] = {
    {"struct P { int clockRate; void cudaThreadExit(); }; int f(P p) { p.cudaThreadExit(); return p.clockRate; }",
     NULL},
    {"int f(cudaDeviceProp p) { return 1; } int g(P p) { return p.clockRate; }", NULL},
    {"int f(cudaDeviceProp p, P q) { return q.clockRate; }", NULL},
    {"int cudaThreadSynchronize() { return cudaDeviceSynchronize(); } int f() { return cudaThreadSynchronize(); }",
     NULL},
    {"int f() { return mine::cudaThreadExit() + a.cudaThreadExit() + b->__shfl(1); } int clockRate;", NULL},
    {"#define X __shfl(1, 2)\nconst char *s = \"cudaThreadExit()\";", NULL},
};

TABLE_TEST(removed_names_are_refused_or_supplied, removed)
{
    char *result = rewritten_with(removed[_i].source, &(struct rewrite_options){.allows_removed = true});
    ck_assert_ptr_nonnull(result);
    ck_assert_msg(contains(result, removed[_i].piece), "\n%s\nbecame\n%s", removed[_i].source, result);
    free(result);
    ck_assert_ptr_null(rewritten(removed[_i].source, false));
}

EXAMPLES(names_of_the_users_are_not_removed, not_removed)

/* ---- refusals ---- */

static const char *const refused[] = {
    "__global__ void k() { asm(\"bar.sync 0;\"); }",
    "__device__ void f() { __asm__ volatile (\"\"); }",
    "__global__ void k() { j<<<1, 1>>>(); }",
    "__device__ float f(cudaTextureObject_t t) { return tex2D<float>(t, 1, 2); }",
    "__global__ void k() { cudaDeviceSynchronize(); }",
    "__global__ void __cluster_dims__(2) k() { }",
    "void f() { k<<<1, 2>>>; }",
    "void f() { (a; }",
    "void f() { a[1); }",
    "void f() {",
};

TABLE_TEST(what_cannot_be_right_is_refused, refused)
{
    ck_assert_ptr_null(rewritten(refused[_i], false));
}
