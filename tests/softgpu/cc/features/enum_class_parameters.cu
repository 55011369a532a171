// Scoped enumerations as parameters of kernels, template arguments, in switches, masks and arrays.
enum class Activation : unsigned char { Identity, Relu, LeakyRelu = 7 };
enum class Flags : unsigned { None = 0, Bias = 1u << 0, Residual = 1u << 1 };
__host__ __device__ constexpr Flags
operator|(Flags a, Flags b)
{
    return static_cast<Flags>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
__host__ __device__ constexpr bool
has(Flags flags, Flags one)
{
    return (static_cast<unsigned>(flags) & static_cast<unsigned>(one)) != 0;
}
__device__ float
activate(float x, Activation a)
{
    switch (a) {
    case Activation::Identity:
        return x;
    case Activation::Relu:
        return x > 0 ? x : 0;
    case Activation::LeakyRelu:
        return x > 0 ? x : 0.125f * x;
    }
    return 0;
}
template <Activation DEFAULT = Activation::Relu>
__global__ void
layer(float *x, Activation a, Flags flags, const Activation *each)
{
    const float in = x[threadIdx.x];
    float out = activate(in, each != nullptr ? each[threadIdx.x] : a == Activation::Identity ? DEFAULT : a);
    if (has(flags, Flags::Bias))
        out += 1;
    if (has(flags, Flags::Residual))
        out += in;
    x[threadIdx.x] = out;
}

int
main()
{
    float *x = managed(16);
    Activation *each = managed(4);
    for (int i = 0; i < 4; ++i)
        x[i] = 8 * (i - 2), each[i] = i % 2 ? Activation::LeakyRelu : Activation::Identity;
    layer<><<<1, 4>>>(x, Activation::Identity, Flags::Bias | Flags::Residual, nullptr);
    layer<Activation::LeakyRelu><<<1, 4>>>(x, Activation::Identity, Flags::None, nullptr);
    layer<><<<1, 4>>>(x, Activation::Relu, Flags::Bias, each);
    cudaDeviceSynchronize();
    return x[0] == -0.875f && x[1] == 0.890625f && x[2] == 2 && x[3] == 18 ? 0 : 1;
}
