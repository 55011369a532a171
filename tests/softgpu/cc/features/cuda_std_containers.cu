// libcu++'s span, mdspan, variant, expected and inplace_vector in kernels.
#include <cuda/std/expected>
#include <cuda/std/inplace_vector>
#include <cuda/std/mdspan>
#include <cuda/std/span>
#include <cuda/std/variant>
__device__ cuda::std::expected<int, float>
checked(int i)
{
    if (i % 2)
        return cuda::std::unexpected<float>(0.5f);
    return i;
}
__global__ void
k(cuda::std::span<const int> x, float *out)
{
    cuda::std::mdspan<const int, cuda::std::extents<int, 2, cuda::std::dynamic_extent>> rows(
        x.data(), static_cast<int>(x.size()) / 2);
    cuda::std::variant<int, float> value = x.back();
    if (threadIdx.x == 1)
        value = 0.25f;
    const float chosen = cuda::std::visit([](auto v) { return static_cast<float>(v); }, value);
    cuda::std::inplace_vector<int, 4> few(3, 7);
    const auto result = checked(static_cast<int>(threadIdx.x));
    out[threadIdx.x] = chosen +
                       static_cast<float>(rows(1, 0)) * (result ? static_cast<float>(*result) : result.error()) +
                       static_cast<float>(few.size());
}

int
main()
{
    int *x = managed(24);
    float *out = managed(12);
    for (int i = 0; i < 6; ++i)
        x[i] = i + 1;
    k<<<1, 3>>>(cuda::std::span<const int>(x, 6), out);
    cudaDeviceSynchronize();
    return out[0] != 9 || out[1] != 0.25f + 2 + 3 || out[2] != 6 + 8 + 3;
}
