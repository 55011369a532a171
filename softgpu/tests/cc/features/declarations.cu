// Declarations in the forms that nvcc takes: alignment, attributes, bounds, types of parameters, initialisers of device
// arrays, linkage, and names that CUDA or a compiler driver uses itself.

struct __align__(16) packed
{
    float v[4];
};
struct alignas(32) wide {
    double d[2];
};
struct __builtin_align__(8) pair
{
    short a, b;
};
typedef struct {
    unsigned char bytes[3];
} odd;
static_assert(alignof(packed) == 16 && alignof(wide) == 32 && alignof(pair) == 8 && sizeof(pair) == 8 &&
                  sizeof(odd) == 3,
              "layout");

__global__ void
load_aligned(packed p, wide w, pair q, odd o, float4 *out)
{
    const float4 loaded = *reinterpret_cast<const float4 *>(p.v);
    *out = make_float4(loaded.x + loaded.w, static_cast<float>(w.d[1]), static_cast<float>(q.a + q.b), o.bytes[2]);
}

FEATURE(structures_are_aligned_in_each_spelling)
{
    float4 *out = managed(sizeof(*out));
    load_aligned<<<1, 1>>>(packed{{1, 2, 3, 4}}, wide{{5, 6}}, pair{7, 8}, odd{{9, 10, 11}}, out);
    EXPECT(done() && out->x == 5 && out->y == 6 && out->z == 15 && out->w == 11);
}

constexpr int kThreads = 128;
[[nodiscard]] __device__ __forceinline__ int
one_more(int x)
{
    return x + 1;
}
static __device__ inline __attribute__((always_inline)) int
two_more(int x)
{
    return x + 2;
}
inline __global__ void
__launch_bounds__(kThreads, 2) bounded([[maybe_unused]] int unused, pair *p)
{
    p->a = one_more(two_more(4));
}
template <int N>
__launch_bounds__(N * 2) __global__ static void constant_argument(__grid_constant__ const pair q, pair *p)
{
    p->b = q.a + q.b + N;
}
__global__ [[deprecated]] void never_defined();

FEATURE(attributes_stand_in_every_place)
{
    pair *p = managed(sizeof(*p));
    bounded<<<1, kThreads>>>(0, p);
    constant_argument<32><<<1, 64>>>(pair{1, 2}, p);
    EXPECT(done() && p->a == 7 && p->b == 35);
}

template <class T>
__global__ void
of_other_types(T a, decltype(a) *out, typename std::remove_cv<decltype(a)>::type b)
{
    using R = decltype(a + b);
    *out = R(a) + b;
}
template <class F>
__global__ auto
trailing(F f, int *p) -> void
{
    *p = f(*p);
}
struct increment {
    __device__ auto operator()(int x) const noexcept -> int
    {
        return x + 1;
    }
};

FEATURE(types_are_those_of_parameters)
{
    float *f = managed(4);
    int *i = managed(4);
    of_other_types<<<1, 1>>>(1.0f, f, 2.0f);
    trailing<<<1, 1>>>(increment(), i);
    EXPECT(done() && *f == 3 && *i == 1);
}

enum level { LOW = 1, HIGH = 10 };
struct stage {
    const char *name;
    int width;
    level of;
};
__device__ int matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
__device__ const stage stages[] = {{"load", 4, LOW}, {"compute", 8, HIGH}, {"store"}};
__device__ char text[] = "abc";
__device__ double scales[4] = {0.5, -1e3, 1 / 4.0};
__device__ int *corner = &matrix[1][2];
__device__ float3 origin = {1, 2, 3};
__device__ bool flags[2] = {true};

FEATURE(device_arrays_have_initialisers)
{
    gives<double>({10, 18 + 'c', 7, 0.5 - 1000 + 0.25, 7}, 0, [] __device__(double *out) {
        out[0] = matrix[1][0] + *corner;
        out[1] = stages[1].width + stages[1].of + stages[2].width + stages[1].name[0];
        out[2] = sizeof(stages) / sizeof(stages[0]) + sizeof(text);
        out[3] = scales[0] + scales[1] + scales[2] + scales[3];
        out[4] = origin.x + origin.y + origin.z + flags[0] + flags[1];
        matrix[0][0] += 1;
    });
    int first[3];
    EXPECT(cudaMemcpyFromSymbol(first, matrix, sizeof(first)) == cudaSuccess && first[0] == 2 && first[2] == 3);
}

extern "C" {
__device__ float gain = 2;
__device__ float
scale(float x)
{
    return x * gain;
}
}
extern "C" __device__ float square(float x);
extern "C" __global__ void __launch_bounds__(64) scale_or_square(float *p);
extern "C" __device__ float
square(float x)
{
    return x * x;
}
extern "C" __global__ void
scale_or_square(float *p)
{
    float (*function)(float) = threadIdx.x % 2 ? scale : square;
    p[threadIdx.x] = function(p[threadIdx.x]);
}

FEATURE(device_code_has_c_linkage)
{
    float *p = managed(32), ten = 10;
    p[3] = 3, p[4] = 4;
    cudaMemcpyToSymbol(gain, &ten, sizeof(ten));
    scale_or_square<<<1, 8>>>(p);
    EXPECT(done() && p[3] == 30 && p[4] == 16);
}

#define turn(x) ((x) + 1)
struct stub {
    int args;
};
__global__ void
name(int launch, stub image, int *grid, const int params, int frame, int shared, int thread, int self)
{
    int block = turn(launch), where = image.args, numbers = params, layout = frame, mode = shared;
    grid[threadIdx.x] = block + where + numbers + layout + mode + thread + self;
}

namespace tuned
{
template <int blockDim>
__global__ void
fixed(int *out)
{
    out[threadIdx.x] = blockDim;
}
__device__ int
size_here()
{
    return blockDim.x;
}
const int gridDim = 7;
__global__ void
both(int *out)
{
    out[1] = gridDim + size_here();
}
} // namespace tuned

FEATURE(programs_use_these_names)
{
    int *out = managed(32);
    name<<<1, 2>>>(1, {2}, out, 3, 4, 5, 6, 7);
    EXPECT(done() && out[1] == 29);
    tuned::fixed<96><<<1, 1>>>(out);
    tuned::both<<<1, 5>>>(out);
    EXPECT(done() && out[0] == 96 && out[1] == 12);
}

/* As programs for old GPUs declare it, whose definition is left to a condition. */
__device__ double atomicAdd(double *address, double value);

__global__ void
add_one(double *sum)
{
    atomicAdd(sum, 1.0);
}

FEATURE(cudas_own_functions_may_be_declared)
{
    double *sum = managed(sizeof(double));
    add_one<<<2, 8>>>(sum);
    EXPECT(done() && *sum == 16);
}
