// Polymorphism without virtual functions: std::variant and std::visit on the host choose a kernel's functor.
#include <optional>
#include <variant>
#include <vector>
struct Scale {
    float by;
    __device__ float operator()(float x) const
    {
        return x * by;
    }
};
struct Clip {
    float low, high;
    __device__ float operator()(float x) const
    {
        return fminf(fmaxf(x, low), high);
    }
};
struct Negate {
    __device__ float operator()(float x) const
    {
        return -x;
    }
};
using Layer = std::variant<Scale, Clip, Negate>;
template <typename Op>
__global__ void
apply(Op op, float *p, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = op(p[i]);
}
static std::optional<float>
run(const std::vector<Layer> &layers, float start)
{
    float *p;
    if (cudaMallocManaged(&p, 40 * sizeof(float)) != cudaSuccess)
        return std::nullopt;
    for (int i = 0; i < 40; ++i)
        p[i] = start + i;
    for (const Layer &layer : layers)
        std::visit([p](const auto &op) { apply<<<2, 32>>>(op, p, 40); }, layer);
    cudaDeviceSynchronize();
    const float result = p[39];
    cudaFree(p);
    return result;
}

int
main()
{
    const auto a = run({Scale{2}, Clip{0, 50}, Negate{}}, 1), b = run({Negate{}, Scale{0.5f}}, 1);
    return a.value_or(0) == -50 && b && *b == -20 ? 0 : 1;
}
