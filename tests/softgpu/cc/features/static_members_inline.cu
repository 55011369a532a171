// Static constexpr members, inline variables, variable templates, constants of the host used in kernels.
#include <cstddef>
namespace cfg
{
constexpr float kEps = 0.5f;
const int kRows = 3;
static const unsigned kMask = 0xffu;
enum { kLimit = 7 };
template <class T> constexpr T kScale = T(2);
template <> constexpr float kScale<float> = 3.0f;
} // namespace cfg
struct Model {
    static constexpr int layers = 2;
    static constexpr float rates[2] = {0.25f, 0.5f};
    enum : int { heads = 8 };
};
__global__ void
k(float *out)
{
    out[0] = cfg::kEps + cfg::kRows + cfg::kMask + cfg::kLimit + 4;
    out[1] = cfg::kScale<float> + cfg::kScale<int> + Model::layers + Model::heads + Model::rates[1];
}
int
main()
{
    float *out = managed(8);
    k<<<1, 1>>>(out);
    cudaDeviceSynchronize();
    return out[0] == 0.5f + 3 + 255 + 7 + 4 && out[1] == 3 + 2 + 2 + 8 + 0.5f ? 0 : 1;
}
