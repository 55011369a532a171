// Expressions, lambdas, functors and loops in device code; callbacks of the host.

__device__ auto
make_adder(int n)
{
    return [n](int x) { return x + n; };
}
template <class F>
__device__ int
apply_twice(F f, int x)
{
    return f(f(x));
}

__global__ void
use_lambdas(int *out)
{
    int total = 0;
    auto add = [&](int v) { total += v; };
    auto fib = [](auto self, int n) -> int { return n < 2 ? n : self(self, n - 1) + self(self, n - 2); };
    add(fib(fib, 10));
    add(apply_twice(make_adder(3), 1));
    const int lane = threadIdx.x;
    auto with_index = [=](int by = 2) { return by * lane; };
    out[lane] = total + with_index() + [](int a, int b) { return a * b; }(2, 3);
}

FEATURE(kernels_have_lambdas)
{
    int *out = managed(128);
    use_lambdas<<<1, 32>>>(out);
    EXPECT(done() && out[31] == 55 + 7 + 62 + 6);
}

struct record {
    std::vector<int> seen;
    const int *value;
    cudaError_t status = cudaErrorUnknown;
};
__global__ void
increment(int *p)
{
    ++*p;
}

FEATURE(callbacks_are_lambdas_in_stream_order)
{
    int *p = managed(4);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    record log;
    log.value = p;
    for (int i = 0; i < 3; ++i) {
        increment<<<1, 1, 0, stream>>>(p);
        cudaLaunchHostFunc(
            stream,
            [](void *data) {
                record *l = static_cast<record *>(data);
                l->seen.push_back(*l->value);
            },
            &log);
    }
    cudaStreamAddCallback(
        stream, [](cudaStream_t, cudaError_t status, void *data) { static_cast<record *>(data)->status = status; },
        &log, 0);
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    EXPECT(log.seen == std::vector<int>{1, 2, 3} && log.status == cudaSuccess);
}

template <class Derived> struct function_of {
    __host__ __device__ float operator()(float x) const
    {
        return static_cast<const Derived *>(this)->apply(x);
    }
};
struct gelu : function_of<gelu> {
    __host__ __device__ float apply(float x) const
    {
        return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    }
};
struct shape {
    __device__ virtual ~shape()
    {
    }
    __device__ virtual float area() const = 0;
};
struct square final : shape {
    float a;
    __device__ explicit square(float side) : a(side)
    {
    }
    __device__ float area() const override
    {
        return a * a;
    }
};

FEATURE(functors_inherit_and_functions_are_virtual)
{
    const gelu f;
    gives<float>({0, 10, 9}, 0, [=] __device__(float *out) {
        const shape *made = new square(3);
        out[0] = f(0);
        out[1] = f(10);
        out[2] = made->area();
        delete made;
    });
}

// Expressions as types, as matrix libraries have them: built on the host or in a kernel, evaluated in one loop, with
// flags and casts in template arguments.
enum { READS_ONCE = 1, ALIGNED = 2 };
template <class E, int Flags> struct expression {
    __host__ __device__ const E &self() const
    {
        return static_cast<const E &>(*this);
    }
};
template <class E> struct flags_of;
template <class T, int N, int Flags = int(READS_ONCE) | int(sizeof(T) * N % 16 == 0 ? ALIGNED : 0)>
struct vec : expression<vec<T, N, Flags>, Flags> {
    T values[N];
    __host__ __device__ T operator[](int i) const
    {
        return values[i];
    }
    template <class E, int F> __host__ __device__ vec &operator=(const expression<E, F> &e)
    {
        for (int i = 0; i < N; ++i)
            values[i] = T(e.self()[i]);
        return *this;
    }
};
template <class T, int N, int F> struct flags_of<vec<T, N, F>> {
    enum { value = F };
};
template <class A, class B, class Op, int Flags> struct binary : expression<binary<A, B, Op, Flags>, Flags> {
    A a;
    B b;
    __host__ __device__ binary(const A &left, const B &right) : a(left), b(right)
    {
    }
    __host__ __device__ auto operator[](int i) const
    {
        return Op::of(a[i], b[i]);
    }
};
template <class A, class B, class Op, int F> struct flags_of<binary<A, B, Op, F>> {
    enum { value = F };
};
#define OPERATOR(name, op, ...)                                                                  \
    struct name {                                                                                \
        template <class T> static __host__ __device__ T of(T a, T b)                             \
        {                                                                                        \
            return a op b;                                                                       \
        }                                                                                        \
    };                                                                                           \
    template <class A, int FA, class B, int FB>                                                  \
    __host__ __device__ auto operator op(const expression<A, FA> &a, const expression<B, FB> &b) \
    {                                                                                            \
        return binary<A, B, name, __VA_ARGS__>(a.self(), b.self());                              \
    }
OPERATOR(plus, +, int(flags_of<A>::value) & int(flags_of<B>::value))
OPERATOR(times, *, (int(flags_of<A>::value) & ~int(ALIGNED)) | int(FB < 0))

template <class E>
__global__ void
assign(vec<float, 4> *out, E e)
{
    out[threadIdx.x] = e;
}
__global__ void
inside(const vec<float, 4> *x, vec<int, 4> *out)
{
    vec<float, 4> y;
    y = x[0] * x[1] + x[1];
    out[0] = y + y * x[0];
}

FEATURE(expressions_are_types)
{
    vec<float, 4> *x = managed(3 * sizeof(*x));
    vec<int, 4> *y = managed(sizeof(*y));
    for (int i = 0; i < 8; ++i)
        x[i / 4].values[i % 4] = static_cast<float>(i) + 0.25f;
    const vec<float, 4> a = x[0], b = x[1];
    assign<<<1, 1>>>(x + 2, a + b * a + b);
    inside<<<1, 1>>>(x, y);
    EXPECT(done());
    static_assert(flags_of<decltype(a + b)>::value == (READS_ONCE | ALIGNED) &&
                      int(flags_of<decltype(a * b)>::value) == int(READS_ONCE),
                  "flags");
    for (int i = 0; i < 4; ++i) {
        const float inner = a[i] * b[i] + b[i];
        EXPECT(x[2][i] == a[i] + b[i] * a[i] + b[i] && y[0][i] == int(inner + inner * a[i]));
    }
}

__host__ __device__ constexpr unsigned long long operator"" _KB(unsigned long long n)
{
    return n << 10;
}
__global__ void
use_literals(long long *out, bool yes)
{
    out[0] = 1'000'000 + 0b101 + 0x1p3f + 0XFFull + 4_KB;
    if (not yes or (yes and out[0] < 0))
        out[1] = -1;
    else [[likely]]
        out[1] = compl 0 bitand 7;
    out[2] = sizeof(R"(a "raw" <<<1, 1>>> string)") + 'a' + u8'b';
}

FEATURE(literals_and_tokens_have_many_forms)
{
    long long *out = managed(24);
    use_literals<<<1'0 / 10, 0x1>>>(out, true);
    EXPECT(done() && out[0] == 1000000 + 5 + 8 + 255 + 4096 && out[1] == 7 && out[2] == 26 + 97 + 98);
}

// #pragma unroll with constants, template parameters and expressions, before every kind of loop; diagnostics by number
// and by name, and an assumption.
#pragma nv_diag_suppress static_var_with_dynamic_init
#pragma nv_diagnostic push
#pragma nv_exec_check_disable
template <int N>
__device__ int
unrolled(const int *p)
{
    int sum = 0;
#pragma unroll N
    for (int i = 0; i < N; ++i)
        sum += p[i];
#pragma unroll(N * 2 + 1)
    for (int i = 0; i < 2 * N; i += 2)
        sum += p[i % N];
    return sum;
}
__global__ void
unroll_loops(const int *p, int *out, int n)
{
    constexpr int kStep = 2;
    __builtin_assume(n > 0);
    int sum = unrolled<4>(p);
#pragma unroll 1
    for (int i = 0; i < n; ++i)
        sum += p[i];
#pragma unroll 4
    while (n > 0)
        sum += --n;
    int left = 3;
#pragma unroll kStep + 1
    do {
        sum += 100;
    } while (--left > 0);
#pragma nv_diag_suppress 177
    int never_used;
#pragma nounroll
    for (int i = 0; i < 3; ++i) {
#pragma unroll
        for (int j = 0; j < 3; ++j)
            sum += i * j;
    }
    *out = sum;
}
#pragma nv_diagnostic pop
#pragma nv_diag_default 177

FEATURE(loops_are_unrolled_by_expressions)
{
    int *p = managed(32), *out = managed(4);
    for (int i = 0; i < 8; ++i)
        p[i] = i;
    unroll_loops<<<1, 1>>>(p, out, 8);
    EXPECT(done() && *out == 6 + 4 + 28 + 28 + 300 + 9);
}

#define CUDA_KERNEL_LOOP(i, n) \
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < (n); i += (long)blockDim.x * gridDim.x)
#define CUDA_1D_KERNEL_LOOP_T(i, n, index_t)                               \
    int64_t _i_n_d_e_x = ((int64_t)blockIdx.x) * blockDim.x + threadIdx.x; \
    for (index_t i = _i_n_d_e_x; _i_n_d_e_x < (n); _i_n_d_e_x += blockDim.x * gridDim.x, i = _i_n_d_e_x)
__global__ void
add_places(int *v, int nx, int ny, int nz)
{
    for (int z = blockIdx.z * blockDim.z + threadIdx.z; z < nz; z += blockDim.z * gridDim.z)
        for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < ny; y += blockDim.y * gridDim.y)
            for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < nx; x += blockDim.x * gridDim.x)
                v[(z * ny + y) * nx + x] += x + 10 * y + 100 * z;
}
__global__ void
add_two(long n, int *v)
{
    CUDA_KERNEL_LOOP(i, n)
    {
        v[i] += 1;
    }
    CUDA_1D_KERNEL_LOOP_T(i, n, int)
    {
        v[i] += 1;
    }
}

FEATURE(grid_strides_have_three_dimensions_and_64_bits)
{
    int *v = managed(7 * 5 * 3 * 4);
    add_places<<<dim3(2, 2, 2), dim3(2, 2, 1)>>>(v, 7, 5, 3);
    add_two<<<2, 8>>>(105, v);
    EXPECT(done() && v[104] == 6 + 40 + 200 + 2 && v[36] == 1 + 0 + 100 + 2);
}
