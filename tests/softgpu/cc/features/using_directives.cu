// using-directives and namespace aliases around kernels: nested namespaces, a directive in a function, names
// re-exported.
namespace engine::detail
{
template <typename T>
__device__ T
three_times(T x)
{
    return 3 * x;
}
__global__ void
run(float *p)
{
    p[threadIdx.x] = three_times(p[threadIdx.x]);
}
enum Mode { FAST, EXACT };
} // namespace engine::detail
namespace engine
{
using detail::run;
using detail::three_times;
inline namespace v2
{
__constant__ float bias = 0.25f;
}
} // namespace engine
namespace ed = engine::detail;
using namespace engine;
template <ed::Mode M>
__global__ void
add_bias(float *p)
{
    using namespace engine::detail;
    p[threadIdx.x] += M == EXACT ? bias : three_times(v2::bias);
}
static void
launch_all(float *p)
{
    using engine::detail::run;
    run<<<1, 4>>>(p);
    ed::run<<<1, 2>>>(p);
    ::cudaDeviceSynchronize();
    add_bias<ed::EXACT><<<1, 4>>>(p);
    add_bias<engine::detail::FAST><<<1, 1>>>(p);
}

int
main()
{
    float *p = managed(16);
    for (int i = 0; i < 4; ++i)
        p[i] = 1;
    launch_all(p);
    cudaDeviceSynchronize();
    return p[0] == 10 && p[1] == 9.25f && p[3] == 3.25f ? 0 : 1;
}
